"""Generic attention explainability (Chefer, Gur and Wolf, ICCV 2021), through the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "generic_attention",
    "attention times its gradient, rolled out over the blocks (Chefer et al., ICCV 2021)",
    facts=Facts("Chefer, Gur and Wolf", 2021, "1 F 1 B", "attention, gradient"),
)
def generic_attention(question: Question, *, gradient: str = "gradient") -> Answer:
    """prod_b (I + E_h (G * A)^+): no relevance pass is needed.

    ``gradient`` names the backward that G is of: "gradient", or a balanced one, "cp", "libra" or
    "attnlrp".
    """
    attention = question.attention

    def layer(b: int, maps: list[Tensor]) -> Tensor:
        return (maps[0] * attention[b]).clamp_(min=0).mean(1)

    return question.roll_out(question.layers(layer, question.by_gradient(gradient)))
