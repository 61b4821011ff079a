"""Partial LRP (Voita et al. 2019): the relevance of the last attention map."""

from __future__ import annotations

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register


@register(
    "partial_lrp",
    "the last block's attention relevance by LRP's rules (Voita et al. 2019)",
    facts=Facts("Voita et al.", 2019, "1 F 1 B", "relevance of the last attention"),
)
def partial_lrp(question: Question) -> Answer:
    """E_h R^+ of the block next to the output."""
    return question.by_tower(_of_last_map)


def _of_last_map(question: Question) -> Answer:
    relevance = question.relevances(question.preset.lrp, last_only=True, signed=True)[-1]
    return question.pool(relevance.clamp(min=0).mean(1))
