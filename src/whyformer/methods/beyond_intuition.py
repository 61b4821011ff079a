"""Transition attention maps (Yuan et al. 2021) and Beyond Intuition (Chen et al. 2023).

They roll attention out, which says where a token's information comes from, and multiply the result
by the integrated gradient of the last map, which says what it is good for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from whyformer.errors import UnknownNameError
from whyformer.methods.integrating import integrated_gradient
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.transformed import transformed

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "tam",
    "attention carried down from the last block, times its integrated gradient (Yuan et al. 2021)",
    on_request=True,
    facts=Facts(
        "Yuan et al.",
        2021,
        "20 F 20 B",
        "attention, gradients of scaled inputs",
        works="one sequence",
    ),
)
def tam(
    question: Question, *, steps: int = 20, gradient: str = "gradient", progress: bool = True
) -> Answer:
    """s * w: s the asked row of E_h A_L prod_{b < L} (I + E_h A_b), w that of (mean_k G_L)^+.

    The gradient is averaged over ``steps`` inputs alpha X, alpha from 0 to 1; ``steps=1`` takes it
    at the input itself. ``gradient`` names the backward that G is of. Where several rows are
    asked, both factors are their mean.
    """
    question.needs_one_sequence("tam")
    weights = integrated_gradient(question, steps, gradient, progress, "tam")
    *lower, last = [attention.mean(1) for attention in question.reached]
    states = last @ question.product(lower) if lower else last
    return Answer(question.pool(states).relevance * question.pool(weights).relevance)


@register(
    "bt_head",
    "attention, heads weighed by their gradients, rolled out, times the last map's integrated "
    "gradient (Chen et al. 2023)",
    on_request=True,
    facts=Facts(
        "Chen et al.",
        2023,
        "20 F 21 B",
        "attention, gradients of scaled inputs",
        works="one sequence",
    ),
)
def bt_head(
    question: Question,
    *,
    steps: int = 20,
    start: int | None = None,
    gradient: str = "gradient",
    progress: bool = True,
) -> Answer:
    """The asked row of W * prod_{b >= start} (I + sum_h theta_h A_b,h), W = E_h (mean_k G_L)^+.

    theta_h is the mean of |A_h^T G_h|, over its sum over the heads. ``start`` is the first block
    that is rolled out, 0 next to the input; without it the fourth of twelve, as published.
    ``steps=1`` takes W at the input itself.
    """
    question.needs_one_sequence("bt_head")
    layers = []
    slopes = question.gradients(table=gradient)
    for a, g in zip(question.reached, slopes, strict=False):
        sizes = (a.mT @ (g * (a > 0))).abs().sum((-1, -2))
        shares = sizes / sizes.sum(1, keepdim=True).clamp(min=1e-30)
        layers.append((shares[:, :, None, None] * a).sum(1))
    weights = integrated_gradient(question, steps, gradient, progress, "bt_head")
    return read_through(question, layers, start, len(layers) // 3 - 1, weights)


@register(
    "bt_token",
    "attention, keys weighed by what their values do to their length, rolled out, times the last "
    "map's integrated gradient (Chen et al. 2023)",
    on_request=True,
    facts=Facts(
        "Chen et al.",
        2023,
        "20 F 20 B",
        "attention, values, streams, gradients of scaled inputs",
        works="one sequence",
    ),
)
def bt_token(
    question: Question,
    *,
    steps: int = 20,
    start: int | None = None,
    gradient: str = "gradient",
    progress: bool = True,
) -> Answer:
    """As ``bt_head``, with layers E_h A_b,ij |v_b,j W_O| / |x_b,j|: the values of all heads.

    x_b is the stream that enters the block, before its norm; the bias of W_O is left out.
    ``start`` is the sixth of twelve blocks without it, as published.
    """
    layers = []
    for block in transformed(question, "bt_token"):
        lengths = block.values.sum(1).norm(dim=-1) / block.stream.norm(dim=-1).clamp(min=1e-30)
        layers.append(block.attention.mean(1) * lengths.unsqueeze(1))
    weights = integrated_gradient(question, steps, gradient, progress, "bt_token")
    return read_through(question, layers, start, len(layers) // 2 - 1, weights)


def read_through(
    question: Question, layers: Sequence[Tensor], start: int | None, usual: int, weights: Tensor
) -> Answer:
    """The asked row of W * prod_{b >= start} (I + layer_b)."""
    first = max(usual, 0) if start is None else start
    if not 0 <= first < len(layers):
        raise UnknownNameError(
            f"start is block {first} of a model with {len(layers)}; choose from 0 to "
            f"{len(layers) - 1}"
        )
    return question.pool(weights * question.product(layers[first:]))
