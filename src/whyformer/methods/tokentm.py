"""TokenTM (Wu et al. 2024): a roll-out that counts how attention's values change each token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.transformed import transformed

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.methods.transformed import Transformed


@register(
    "tokentm",
    "attention times its gradient, weighed by how values change length and direction of a token, "
    "rolled out (Wu et al. 2024)",
    on_request=True,
    facts=Facts(
        "Wu et al.", 2024, "1 F 1 B", "attention, values, streams, gradient", works="one sequence"
    ),
)
def tokentm(question: Question, *, gradient: str = "gradient") -> Answer:
    """prod_b (I + E_h (A_b G_b)^+ diag(w_b)) diag(|x_1|), the asked row.

    w_h,j = |p_h,j| / |x_j| times exp(cos(p_h,j, x_j)) over its mean over the tokens, with p = v W_O
    what head h makes of token j, and x the stream that enters the block. This reading counts the
    steps that move information between tokens; the MLPs, which move none, are left out.
    ``gradient`` names the backward that G is of.
    """
    blocks = transformed(question, "tokentm")
    slopes = question.gradients(table=gradient)
    layers: list[Tensor | None] = [None] * len(question.attention)
    for number, block in enumerate(blocks):
        given = (block.attention * slopes[number]).clamp(min=0)
        layers[number] = (given * changes(block).unsqueeze(2)).mean(1)
    found = question.roll_out(layers)
    lengths = question.by_token(blocks[0].stream.norm(dim=-1))
    matrix = None if found.matrix is None else found.matrix * lengths.unsqueeze(1)
    return Answer(found.relevance * lengths, matrix)


def changes(block: Transformed) -> Tensor:
    """w of every head and token, (batch, heads, tokens); padding has no part in the mean."""
    from torch.nn.functional import cosine_similarity

    stream = block.stream.unsqueeze(1)
    lengths = block.values.norm(dim=-1) / stream.norm(dim=-1).clamp(min=1e-30)
    turned = cosine_similarity(block.values, stream, dim=-1).exp()
    counted = (block.attention.amax((1, 2)) > 0).to(turned).unsqueeze(1)
    mean = (turned * counted).sum(-1, keepdim=True) / counted.sum(-1, keepdim=True).clamp(min=1)
    return lengths * turned / mean
