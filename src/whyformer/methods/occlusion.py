"""Occlusion (Zeiler and Fergus 2014): what the logit loses without a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.methods.masking import ROWS_AT_ONCE, Masked, answer, counting
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "occlusion",
    "what the logit loses where a token is taken away, one after the other "
    "(Zeiler and Fergus 2014)",
    maps=False,
    on_request=True,
    facts=Facts(
        "Zeiler and Fergus",
        2014,
        "1 F a token",
        "forwards without tokens",
        signed=True,
        works="one input",
    ),
)
def occlusion(
    question: Question, *, baseline: float | Tensor = 0.0, progress: bool = True
) -> Answer:
    """y(x) - y(x without the token), of every content token.

    A patch's pixels, or a word's embedding, become the baseline, in the model's own units. Where
    two tokens say the same, the logit loses little without either of them, and both get nothing.
    """
    import torch

    masked = Masked(question, "occlusion", baseline)
    content, beside = masked.content, (question.seed, *masked.forward.sides)
    numbers = torch.arange(content.shape[1], device=content.device).expand_as(content)
    asked = content.any(0).nonzero().flatten().tolist()
    at_once = max(1, ROWS_AT_ONCE // len(content))
    with counting("occlusion", len(asked), progress) as bar:
        whole = masked.value(masked.root, *beside)
        found = whole.new_zeros(content.shape)
        for first in range(0, len(asked), at_once):
            tokens = asked[first : first + at_once]
            rows = torch.cat([masked.without(numbers == token) for token in tokens])
            left = masked.value(rows, *(torch.cat([side] * len(tokens)) for side in beside))
            found[:, tokens] = (whole - left.view(len(tokens), -1)).T
            bar.update(len(tokens))
    return answer(question, found)
