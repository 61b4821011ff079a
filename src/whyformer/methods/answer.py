"""What a method answers, and what it may read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Answer:
    """Relevance of every token for what was asked about, (batch, tokens).

    ``matrix`` is the same for every token as the one that is asked about, (batch, tokens,
    tokens); ``input_relevance`` is signed and reaches the input itself. ``others`` is the
    relevance of the further inputs of a model that has several, in their order. ``cells`` is the
    grid, finer than the patches', that an image's ``input_relevance`` is to be shown in; without
    it the patches are.
    """

    relevance: Tensor
    matrix: Tensor | None = None
    input_relevance: Tensor | None = None
    others: tuple[Tensor, ...] = ()
    cells: tuple[int, int] | None = None

    @classmethod
    def of(cls, parts: Iterable[Tensor], input_relevance: Tensor | None = None) -> Answer:
        """An answer with the relevance of every input, the main one first."""
        first, *others = parts
        return cls(first, None, input_relevance, tuple(others))

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The relevance of every input, the main one first."""
        return (self.relevance, *self.others)


class Stream(NamedTuple):
    """A residual stream where it enters a block, and the gradient of the target there."""

    value: Tensor
    gradient: Tensor


class Maps(NamedTuple):
    """One block's attention, its gradient and its relevance."""

    attention: Tensor
    gradient: Tensor
    relevance: Tensor
