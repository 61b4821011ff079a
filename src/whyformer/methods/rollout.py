"""Attention rollout (Abnar and Zuidema 2020), Eq. 16 of the paper."""

from __future__ import annotations

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register


@register(
    "rollout",
    "attention, averaged over heads and multiplied over the blocks (Abnar and Zuidema 2020)",
    class_specific=False,
    facts=Facts("Abnar and Zuidema", 2020, "1 F", "attention"),
)
def rollout(question: Question) -> Answer:
    """prod_b (I + E_h A); a preset's conventions may divide each row by its sum."""
    layers = [attention.mean(1) for attention in question.attention]
    return question.roll_out(layers, normalise_rows=question.preset.conventions.normalise_rollout)
