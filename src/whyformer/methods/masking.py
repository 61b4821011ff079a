"""Tokens as features that can be taken away: patches of pixels, words by their embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from whyformer.errors import ModelError
from whyformer.methods.question import Answer, Question
from whyformer.methods.varying import Varied, blank

if TYPE_CHECKING:
    from torch import Tensor

#: rows of masked inputs that go through the model together
ROWS_AT_ONCE = 16


class Masked:
    """The output as a function of which content tokens are there.

    A token that is taken away has the baseline's value in the place of its pixels or embedding.
    """

    def __init__(self, question: Varied, method: str, baseline: float | Tensor) -> None:
        if len(question.sites) > 1:
            raise ModelError(
                f"{method} takes tokens of one input away, and the model reads "
                f"{len(question.sites)}; use gradient_x_input or deeplift"
            )
        self.forward = question.forward
        self.root = self.forward.root
        self.baseline = blank(question, self.root, baseline)
        self.content = question.tokens.content
        self.places = places(question, self.root)

    def value(self, root: Tensor, seed: Tensor, *sides: Tensor) -> Tensor:
        """y of some rows of inputs."""
        return (self.forward(root, *sides) * seed).flatten(1).sum(1)

    def without(self, gone: Tensor) -> Tensor:
        """The inputs without some tokens: ``gone`` is (batch, tokens)."""
        import torch

        at_input = gone.gather(1, self.places.flatten(1)).view_as(self.places)
        return torch.where(at_input, self.baseline, self.root)


def places(question: Varied, root: Tensor) -> Tensor:
    """The number of the token that each value of the input belongs to.

    What sums values to tokens is linear: its derivative, weighted with the tokens' numbers, says
    which token a value is counted for, however an input is cut into patches or frames.
    """
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        values = torch.zeros_like(root).requires_grad_()
        tokens = question.sites[0].from_input(values)[1]
        numbers = torch.arange(1, tokens.shape[1] + 1, device=root.device).to(root)
        (weighted,) = torch.autograd.grad((tokens * numbers).sum(), values, retain_graph=True)
        (counted,) = torch.autograd.grad(tokens.sum(), values)
    return (weighted / counted).nan_to_num(1.0).round().long() - 1


def answer(question: Question, found: Tensor) -> Answer:
    """(batch, tokens) values of the content; special tokens and padding have none."""
    return Answer(found.masked_fill(~question.tokens.content, 0).to(question.seed))


@contextmanager
def counting(name: str, total: int, progress: bool) -> Iterator[Any]:
    """Forwards alone, and a bar that counts the masked inputs."""
    import torch
    from tqdm.auto import tqdm

    bar = tqdm(total=total, desc=name, unit="input", disable=not progress)
    with torch.inference_mode(False), torch.no_grad(), bar:
        yield bar
