"""For methods that vary the input: what of it is content, its range, what may replace it."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Protocol

from whyformer.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine import Forward
    from whyformer.methods.question import Question
    from whyformer.sites import Site
    from whyformer.tokens import Tokens


class Varied(Protocol):
    """An input and its forward: a question about it, or its recording."""

    @property
    def sites(self) -> Sequence[Site]: ...

    @property
    def tokens(self) -> Tokens: ...

    @property
    def forward(self) -> Forward: ...


def varied(question: Varied, root: Tensor) -> Tensor:
    """What of the input is content, in a shape that broadcasts to it: all of an image."""
    import torch

    content = question.tokens.content
    if question.tokens.kind == "image" or root.ndim > 3 or root.shape[1] > content.shape[1]:
        return torch.ones_like(root, dtype=torch.bool)
    own = content[:, content.shape[1] - root.shape[1] :]
    return own.unsqueeze(-1) if root.ndim == 3 else own


def blank(question: Varied, root: Tensor, baseline: float | Tensor) -> Tensor:
    """The input without its content: a baseline there; special tokens and padding keep theirs."""
    import torch

    given = torch.as_tensor(baseline).to(root)
    try:
        whole = given.expand_as(root)
    except RuntimeError:
        raise InputError(
            f"the baseline has shape {tuple(given.shape)}; expected a number, or a tensor that "
            f"broadcasts to the input's {tuple(root.shape)}"
        ) from None
    return torch.where(varied(question, root), whole, root)


def extent(question: Question, root: Tensor) -> Tensor:
    """Highest minus lowest value of every sample's content, (batch, 1, ...)."""
    content = varied(question, root).expand_as(root)
    axes = tuple(range(1, root.ndim))
    low = root.detach().masked_fill(~content, float("inf")).amin(axes, keepdim=True)
    high = root.detach().masked_fill(~content, float("-inf")).amax(axes, keepdim=True)
    return high - low


def noise(root: Tensor, number: int) -> Tensor:
    """Normal noise by a number, the same for every sample, whatever stands behind its tokens."""
    import numpy as np
    import torch

    drawn = np.random.default_rng(number).standard_normal(root.shape[1:])
    return torch.from_numpy(drawn).to(root)


def at_least(name: str, value: float, least: float) -> None:
    """Refuse an option that is no finite number, or too small."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= value < float("inf"):
        raise InputError(f"{name} is {value!r}; expected a number of at least {least}")


def count_at_least(name: str, value: int, least: int) -> None:
    """Refuse an option that is no whole number, or too small."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} is {value!r}; expected a whole number of at least {least}")
