"""The last block's attention, as it is."""

from __future__ import annotations

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register


@register(
    "raw_attention",
    "the last block's attention, averaged over heads",
    class_specific=False,
    facts=Facts("Vaswani et al.", 2017, "1 F", "the last attention"),
)
def raw_attention(question: Question) -> Answer:
    """E_h A of the block next to the output."""
    return question.by_tower(lambda tower: tower.pool(tower.last_attention.mean(1)))
