"""DeepLIFT (Shrikumar et al. 2017) and DeepSHAP (Lundberg and Lee 2017): differences, explained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whyformer.errors import InputError, ModelError
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.varying import blank, count_at_least, varied

if TYPE_CHECKING:
    from torch import Tensor

#: how far the contributions may miss the change, as a share of their sizes
TOLERANCE = 1e-3


@register(
    "deeplift",
    "what the change from a baseline gives to the logit's change (Shrikumar et al. 2017)",
    on_request=True,
    facts=Facts(
        "Shrikumar et al.",
        2017,
        "2 F 1 B",
        "a baseline's forward",
        signed=True,
        complete=True,
        works="any model",
    ),
)
def deeplift(question: Question, *, baseline: float | Tensor = 0.0) -> Answer:
    """m (x - x0), m the multipliers of the Rescale rule: they sum to y(x) - y(x0), exactly.

    The baseline is in the model's own units: 0 is the colour that the normalisation maps to it,
    or an embedding without any direction. Special tokens and padding keep theirs, as do further
    inputs of the model: what does not change contributes nothing, which is also what the method
    is blind to. A target that is a function counts by its derivative at the input.
    """
    return question.at_input(*contributions(question, baseline))


@register(
    "deepshap",
    "DeepLIFT, averaged over several baselines (Lundberg and Lee 2017)",
    on_request=True,
    facts=Facts(
        "Lundberg and Lee",
        2017,
        "9 F 8 B",
        "several baselines' forwards",
        signed=True,
        complete=True,
        works="any model",
    ),
)
def deepshap(question: Question, *, baselines: Tensor | None = None, samples: int = 8) -> Answer:
    """The mean of ``deeplift`` over baselines: sums to y(x) minus the mean of their y.

    ``baselines`` are (number, ...) inputs, each for every sample of the batch. Without them
    ``samples`` are drawn, noise with the mean and the spread of each sample's own channels or
    features: other samples of the batch would be more like data, but then a map would depend on
    its neighbours.
    """
    given: Sequence[Tensor]
    if baselines is None:
        count_at_least("samples", samples, 1)
        given = [noise(question, number) for number in range(samples)]
    else:
        if len(baselines.shape) != question.input.ndim or not len(baselines):
            raise InputError(
                f"baselines of shape {tuple(baselines.shape)}; expected several inputs of shape "
                f"{tuple(question.input.shape[1:])}: (number, ...)"
            )
        given = list(baselines)
    total: list[Tensor] | None = None
    for baseline in given:
        found = contributions(question, baseline)
        shares = [part / len(given) for part in found]
        total = shares if total is None else [a + b for a, b in zip(total, shares, strict=True)]
    assert total is not None
    return question.at_input(*total)


def contributions(question: Question, baseline: float | Tensor) -> list[Tensor]:
    """m (x - x0) of every input."""
    from whyformer.engine.pairs import paired
    from whyformer.engine.rules.differences import deeplift_table

    other = question.at(blank(question, question.input, baseline))
    table = deeplift_table(paired(question.trace, other.trace))
    multipliers = question.input_relevance(table, question.start)
    found = [
        slot * (x - x0).detach()
        for slot, x, x0 in zip(multipliers, question.roots, other.roots, strict=True)
    ]
    refuse_incomplete(question, other, found)
    return found


def refuse_incomplete(question: Question, other: Question, found: Sequence[Tensor]) -> None:
    """Values that the model chooses or cuts, such as a maximum, have no multiplier."""
    output, before = question.trace.output.detach(), other.trace.output.detach()
    change = float(((output - before) * question.seed).sum())
    total = float(sum(part.sum() for part in found))
    size = float(sum(part.abs().sum() for part in found)) + abs(change)
    if abs(total - change) > TOLERANCE * size:
        raise ModelError(
            f"the contributions sum to {total:.4g} where the output changes by {change:.4g}: the "
            "model chooses or cuts values (max, topk, dropout, no_grad) otherwise than at the "
            "baseline, and DeepLIFT knows no multiplier for that; use integrated_gradients"
        )


def noise(question: Question, number: int) -> Tensor:
    """Normal values, like each sample's content in mean and spread; the same whatever the batch."""
    import numpy as np
    import torch

    root = question.input
    content = varied(question, root).expand_as(root).to(root)
    axes = tuple(range(2, root.ndim)) if root.ndim > 3 else (1,)
    count = content.sum(axes, keepdim=True).clamp(min=1)
    mean = (root * content).sum(axes, keepdim=True) / count
    spread = ((root - mean).square() * content).sum(axes, keepdim=True).div(count).sqrt()
    drawn = np.random.default_rng(number).standard_normal(root.shape[1:])
    return mean + spread * torch.from_numpy(drawn).to(root)
