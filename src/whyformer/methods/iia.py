"""Iterated integrated attributions (Barkan et al. 2023), with two integrals."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from whyformer.errors import ModelError
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.varying import count_at_least

if TYPE_CHECKING:
    from whyformer.engine.operations import Operation


@register(
    "iia",
    "attention times its gradient, averaged over interpolated inputs and last attention, rolled "
    "out (Barkan et al. 2023)",
    on_request=True,
    facts=Facts("Barkan et al.", 2023, "9 F 9 B", "attention, gradients of scaled inputs and maps"),
)
def iia(
    question: Question, *, steps: int = 3, gradient: str = "gradient", progress: bool = True
) -> Answer:
    """prod_b (I + mean_{i,k} E_h (A_b G_b)^+), at inputs i/n X with k/n A_L for the last map.

    i and k count from 1 to n = ``steps``; it costs n^2 forwards and backwards, and the authors
    take n = 10. This reading averages the layers and rolls them out once. ``gradient`` names the
    backward that G is of.
    """
    from tqdm.auto import tqdm

    count_at_least("steps", steps, 1)
    softmax = question.trace.seen.attention[len(question.reached) - 1].softmax
    assert softmax is not None
    total = [attention.new_zeros(attention[:, 0].shape) for attention in question.attention]
    grid = list(product(range(1, steps + 1), repeat=2))
    for i, k in tqdm(grid, desc="iia", unit="step", disable=not progress):
        there = question
        if (i, k) != (steps, steps):
            scaled = {softmax.number: lambda weights, k=k: weights * (k / steps)}
            there = question.at(question.input * (i / steps), scaled)
            refuse_other_steps(there, softmax)
        slopes = there.gradients(table=gradient)
        for layer, a, g in zip(total, there.attention, slopes, strict=True):
            layer += (a * g).clamp(min=0).mean(1) / len(grid)
    return question.roll_out(total)


def refuse_other_steps(there: Question, softmax: Operation) -> None:
    """Steps are found by their number: a model that takes others would have another one scaled."""
    last = there.trace.seen.attention[len(there.reached) - 1].softmax
    if last is None or last.number != softmax.number:
        raise ModelError(
            "iia scales the last attention by the number of its step, and this model takes other "
            "steps at other inputs; use generic_attention"
        )
