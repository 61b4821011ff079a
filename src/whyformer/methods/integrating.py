"""The gradient of the last attention map, averaged over the way from nothing to the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.methods.question import Question
from whyformer.methods.varying import count_at_least

if TYPE_CHECKING:
    from torch import Tensor


def integrated_gradient(
    question: Question, steps: int, gradient: str, progress: bool, what: str
) -> Tensor:
    """(mean_k dy(alpha_k X) / dA_L)^+, averaged over heads, alpha_k evenly from 0 to 1.

    ``steps=1`` is the gradient at the input itself. What is hidden from a query has no gradient.
    """
    import torch
    from tqdm.auto import tqdm

    count_at_least("steps", steps, 1)
    scales = [1.0] if steps == 1 else torch.linspace(0, 1, steps, dtype=torch.float64).tolist()
    total = torch.zeros_like(question.last_attention)
    for scale in tqdm(scales, desc=what, unit="step", disable=not progress or steps == 1):
        there = question if scale == 1 else question.at(scale * question.input)
        total += there.gradients(last_only=True, table=gradient)[-1]
    shown = question.last_attention > 0
    return (total / len(scales)).clamp(min=0).mul(shown).mean(1)
