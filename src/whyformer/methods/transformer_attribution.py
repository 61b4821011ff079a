"""The paper's method: gradient times relevance, positive part, rolled out (Eq. 13, 14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whyformer.errors import UnknownNameError, nearest
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register

if TYPE_CHECKING:
    from torch import Tensor

FACTORS = ("gradient", "attention", None)


@register(
    "transformer_attribution",
    "relevance of attention times its gradient, rolled out over the blocks (Chefer et al. 2021)",
    facts=Facts("Chefer, Gur and Wolf", 2021, "1 F 2 B", "attention's gradient and relevance"),
)
def transformer_attribution(
    question: Question,
    *,
    factor: str | None = "gradient",
    blocks: int | Sequence[int] | slice | None = None,
    normalise_rows: bool | None = None,
    gradient: str = "gradient",
) -> Answer:
    """C = prod_b (I + E_h (G * R)^+), the pooled token's row.

    ``factor`` multiplies the relevance: "gradient" (the method), "attention" (ablation i) or
    None. ``gradient`` names the backward that G is of: "gradient", or a balanced one, "cp",
    "libra" or "attnlrp". ``blocks`` selects blocks, input side first: -1 is ablation ii, 1 is
    ablation iii. A preset's conventions may leave out an image's block next to the input, and
    divide each row by its sum, as the authors' benchmarks do.
    """
    conventions, kind = question.preset.conventions, question.tokens.kind
    count = len(question.attention)
    if blocks is None and conventions.skip_first_block and kind == "image" and count > 1:
        blocks = slice(1, None)
    if normalise_rows is None:
        normalise_rows = kind in conventions.normalise_attribution
    if factor not in FACTORS:
        known = [name for name in FACTORS if name]
        raise UnknownNameError(f"unknown factor {factor!r}; {nearest(str(factor), known)}")

    chosen = select(blocks, count)
    relevance = question.by_relevance(signed=factor != "gradient")
    slope = question.by_gradient(gradient)
    backwards = [relevance, slope] if factor == "gradient" else [relevance]

    def layer(b: int, maps: list[Tensor]) -> Tensor:
        factors = [question.attention[b]] if factor == "attention" else maps[1:]
        product = maps[0] * factors[0] if factors else maps[0].clone()
        return product.clamp_(min=0).mean(1)

    layers = question.layers(layer, *backwards, blocks=chosen)
    return question.roll_out(layers, normalise_rows)


def select(blocks: int | Sequence[int] | slice | None, count: int) -> list[int]:
    """Indices of the chosen blocks, in order, input side first."""
    everything = range(count)
    if blocks is None:
        return list(everything)
    if isinstance(blocks, slice):
        chosen = list(everything[blocks])
    else:
        wanted = [blocks] if isinstance(blocks, int) else list(blocks)
        outside = [b for b in wanted if not -count <= b < count]
        if outside:
            raise UnknownNameError(
                f"block {outside[0]} of a model with {count}; choose from {-count} to {count - 1}"
            )
        chosen = sorted(b % count for b in wanted)
    if not chosen:
        raise UnknownNameError(f"blocks={blocks!r} selects none of the model's {count} blocks")
    return chosen
