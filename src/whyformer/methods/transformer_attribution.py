"""The paper's method: gradient times relevance, positive part, rolled out (Eq. 13, 14)."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.errors import UnknownNameError, nearest
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import register


@register(
    "transformer_attribution",
    "relevance of attention times its gradient, rolled out over the blocks (Chefer et al. 2021)",
)
def transformer_attribution(
    question: Question,
    *,
    factor: str | None = "gradient",
    blocks: int | Sequence[int] | slice | None = None,
    normalise_rows: bool | None = None,
) -> Answer:
    """C = prod_b (I + E_h (G * R)^+), the pooled token's row.

    ``factor`` multiplies the relevance: "gradient" (the method), "attention" (ablation i) or
    None. ``blocks`` selects blocks, input side first: -1 is ablation ii, 1 is ablation iii.
    The ``reference`` preset does as the authors' benchmarks do: images leave out the block
    next to the input, text divides each row by its sum.
    """
    reference = question.preset.name == "reference"
    image = question.tokens.kind == "image"
    if blocks is None and reference and image and len(question.attention) > 1:
        blocks = slice(1, None)
    if normalise_rows is None:
        normalise_rows = reference and not image

    chosen = select(blocks, len(question.attention))
    last_only = chosen == [len(question.attention) - 1]
    relevances = question.relevances(last_only=last_only)
    if factor == "gradient":
        factors = question.gradients(last_only=last_only)
    elif factor == "attention":
        factors = question.attention[-1:] if last_only else question.attention
    elif factor is None:
        factors = []
    else:
        raise UnknownNameError(
            f"unknown factor {factor!r}; {nearest(str(factor), ['gradient', 'attention'])}"
        )
    if last_only:
        chosen = [0]
    layers = [
        (relevances[b] * factors[b] if factors else relevances[b]).clamp(min=0).mean(1)
        for b in chosen
    ]
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
