"""The forward taken apart, whatever the class: ALTI and GlobEnc, rolled out over the blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.transformed import Transformed, normalised, transformed

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "alti",
    "how near each token's vector comes to what attention gives, rolled out "
    "(ALTI; Ferrando et al. 2022)",
    class_specific=False,
    on_request=True,
    facts=Facts(
        "Ferrando et al.", 2022, "1 F", "attention, values, streams, norms", works="one sequence"
    ),
)
def alti(question: Question) -> Answer:
    """prod_b C_b, C_ij = (|y_i|_1 - |y_i - t_ij|_1)^+ over its row's sum.

    t_ij is what token j gives to token i by attention, x_i itself with it; y_i = x_i + attention,
    behind the norm where a norm stands behind it (post-norm). MLPs are left out.
    """

    def contributions(block: Transformed) -> Tensor:
        import torch

        rows = []
        for query, given in enumerate(block.vectors()):
            whole = block.out[:, query : query + 1]
            if block.norms:
                norm, value = block.norms[0]
                at = value[:, query : query + 1]
                given, whole = normalised(norm, given, at), norm.call(whole)
            rows.append(whole.abs().sum(-1) - (whole - given).abs().sum(-1))
        return torch.stack(rows, 1).clamp(min=0)

    return multiplied(question, "alti", contributions)


@register(
    "globenc",
    "the length of what each token gives to each, norms and skip connections with it, rolled out "
    "(GlobEnc; Modarressi et al. 2022)",
    class_specific=False,
    on_request=True,
    facts=Facts(
        "Modarressi et al.", 2022, "1 F", "attention, values, streams, norms", works="one sequence"
    ),
)
def globenc(question: Question) -> Answer:
    """prod_b N_b, N_ij = |t_ij| over its row's sum.

    t_ij is what token j gives to token i by attention, x_i itself with it, scaled as both norms
    behind the block's attention and MLP scale token i (post-norm; a pre-norm block has none).
    Of the MLP nothing else counts.
    """

    def contributions(block: Transformed) -> Tensor:
        import torch

        rows = []
        for query, given in enumerate(block.vectors()):
            for norm, value in block.norms:
                given = normalised(norm, given, value[:, query : query + 1])
            rows.append(given.norm(dim=-1))
        return torch.stack(rows, 1)

    return multiplied(question, "globenc", contributions)


def multiplied(
    question: Question, method: str, contributions: Callable[[Transformed], Tensor]
) -> Answer:
    """The asked row of the product of matrices whose rows sum to one; they hold the identity.

    A token to which none gives anything keeps what it was.
    """
    layers: list[Tensor | None] = [None] * len(question.attention)
    for number, block in enumerate(transformed(question, method)):
        found = contributions(block)
        total, itself = found.sum(-1, keepdim=True), found.new_ones(found.shape[:-1]).diag_embed()
        shares = (found / total.clamp(min=1e-30)).where(total > 0, itself)
        layers[number] = shares - itself
    return question.roll_out(layers, normalise_rows=True)
