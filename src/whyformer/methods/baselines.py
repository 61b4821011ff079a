"""What a method may take from the input, and what it puts into its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.errors import InputError
from whyformer.methods.question import Question

if TYPE_CHECKING:
    from torch import Tensor


def varied(question: Question, root: Tensor) -> Tensor:
    """What of the input is content, in a shape that broadcasts to it: all of an image."""
    import torch

    content = question.tokens.content
    if question.tokens.kind == "image" or root.ndim > 3 or root.shape[1] > content.shape[1]:
        return torch.ones_like(root, dtype=torch.bool)
    own = content[:, content.shape[1] - root.shape[1] :]
    return own.unsqueeze(-1) if root.ndim == 3 else own


def blank(question: Question, root: Tensor, baseline: float | Tensor) -> Tensor:
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


def at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise InputError(f"{name} is {value}; expected at least {least}")
