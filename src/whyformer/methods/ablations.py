"""The paper's ablations of its method, to be evaluated beside it."""

from __future__ import annotations

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.transformer_attribution import transformer_attribution


@register(
    "ablation_no_gradient",
    "ablation i: attention in the place of its gradient, rolled out",
    on_request=True,
    facts=Facts("Chefer, Gur and Wolf", 2021, "1 F 1 B", "attention, its relevance"),
)
def ablation_no_gradient(question: Question) -> Answer:
    """C = prod_b (I + E_h (A * R)^+)."""
    return transformer_attribution(question, factor="attention")


@register(
    "ablation_last_block",
    "ablation ii: the paper's method on the block next to the output alone",
    on_request=True,
    facts=Facts("Chefer, Gur and Wolf", 2021, "1 F 2 B", "attention's gradient and relevance"),
)
def ablation_last_block(question: Question) -> Answer:
    """C = I + E_h (G * R)^+ of the last block."""
    return transformer_attribution(question, blocks=-1)


@register(
    "ablation_second_block",
    "ablation iii: the paper's method on the second block from the input alone",
    on_request=True,
    facts=Facts("Chefer, Gur and Wolf", 2021, "1 F 2 B", "attention's gradient and relevance"),
)
def ablation_second_block(question: Question) -> Answer:
    """C = I + E_h (G * R)^+ of the second block."""
    return transformer_attribution(question, blocks=1)
