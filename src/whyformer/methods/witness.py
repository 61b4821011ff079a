"""Witness: what each token said for the target, as it was heard, and what it carries itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from whyformer.errors import ModelError
from whyformer.methods.gradients import stream_relevance
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.shifted import over_shifted_grids
from whyformer.methods.varying import at_least

if TYPE_CHECKING:
    from torch import Tensor

#: how much of what a token heard it hands on: the share of attention beside the identity
HEARSAY = 1 / 2
#: how much of a row's mean evidence is taken from what each token said
EXPECTED = 1 / 2
#: how much the tokens' own streams count beside what was heard of them
PRESENCE = 1 / 3


@register(
    "witness",
    "signed: what each token said for the target, as it was heard, and what it carries itself",
    facts=Facts("whyformer", 2026, "1 F 1 B", signed=True),
)
def witness(
    question: Question,
    *,
    gradient: str = "libra",
    hearsay: float = HEARSAY,
    expected: float = EXPECTED,
    presence: float = PRESENCE,
    shifts: int = 1,
) -> Answer:
    """sign(F) sqrt(|F| S) + presence P: heard and said, and present.

    G = dy/dA of a balanced backward is what a key's value says for the target where it is read.

    Heard: F = sum_b r E_h A_b (G_b - expected sum_k A_b G_b) prod_{l < b} (I + hearsay E_h A_l),
    output side on the left. Said: S = sum_b r E_h G_b^+ of keys that a query may read. Present:
    P = sum_b sum_d x_b g_b. The root and P are divided by the sum of their sizes over the content
    of all inputs; F and S are, too, against underflow. With ``shifts`` of two or more, an image's
    map is the mean over as many shifted grids in each direction, finer than its patches.
    """
    if shifts != 1:
        at_least("shifts", shifts, 1)
        same = partial(
            witness, gradient=gradient, hearsay=hearsay, expected=expected, presence=presence
        )
        return over_shifted_grids(question, same, shifts)
    layers: list[Tensor | None] = [None] * len(question.attention)
    if not question.trace.seen.blocks:
        raise ModelError(
            "witness needs skip connections around attention, which carry what a token said to the "
            "output; this model has none: use gradient_x_input or generic_attention"
        )
    values: list[Tensor | None] = [None] * len(question.attention)

    def read(number: int, said: Tensor) -> None:
        attention = question.attention[number]
        values[number] = (said.clamp(min=0) * (attention > 0)).mean(1)
        heard = attention * said
        heard -= attention * (heard.sum(-1, keepdim=True) * expected)
        layers[number] = heard.mean(1)

    present = stream_relevance(question, gradient, read)
    heard = shares(question, question.flow(layers, hearsay).parts)
    said = shares(question, question.flow(values).parts)
    roots = [f.sign() * (f.abs() * s).sqrt() for f, s in zip(heard, said, strict=True)]
    own = shares(question, present.parts)
    return Answer.of(
        root + presence * part for root, part in zip(shares(question, roots), own, strict=True)
    )


def shares(question: Question, parts: Sequence[Tensor]) -> list[Tensor]:
    """Relevance of the content of all inputs, divided by the sum of its sizes, sample by sample."""
    shown = [
        part.masked_fill(~site.tokens.content, 0)
        for part, site in zip(parts, question.sites, strict=True)
    ]
    sizes = [part.abs().sum(1, keepdim=True) for part in shown]
    total = sum(sizes[1:], sizes[0]).clamp(min=1e-30)
    return [part / total for part in shown]
