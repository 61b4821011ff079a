"""Generic attention explainability (Chefer, Gur and Wolf, ICCV 2021), for self-attention."""

from __future__ import annotations

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import register


@register(
    "generic_attention",
    "attention times its gradient, rolled out over the blocks (Chefer et al., ICCV 2021)",
)
def generic_attention(question: Question) -> Answer:
    """prod_b (I + E_h (G * A)^+): no relevance pass is needed."""
    layers = [
        (gradient * attention).clamp(min=0).mean(1)
        for gradient, attention in zip(question.gradients(), question.attention, strict=True)
    ]
    return question.roll_out(layers)
