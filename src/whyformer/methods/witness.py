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
from whyformer.methods.varying import at_least, count_at_least

if TYPE_CHECKING:
    from torch import Tensor


def remark(maps: Tensor) -> list[str]:
    """That what speaks against the target is ordered less surely, where most of a map does."""
    against = (maps.sum(-1) < 0).tolist()
    if not any(against):
        return []
    where = "" if all(against) else f" in {sum(against)} of {len(against)} maps"
    return [
        f"more speaks against the target than for it{where}: witness orders that less surely than "
        "what speaks for one; compare it with fullgrad"
    ]


#: how much of what a token heard it hands on: the share of attention beside the identity
HEARSAY = 1 / 2
#: how much of a row's mean evidence is taken from what each token said
EXPECTED = 1 / 2
#: how far the tokens' own streams spread, beside what was heard of them
PRESENCE = 3 / 4
#: tokens whose spread tells how far they are apart; of two it tells which one is ahead
FEWEST = 3
#: shares whose spread is below this part of their mean size differ by rounding errors alone
ROUNDING = 1e-5


@register(
    "witness",
    "signed: what each token said for the target, as it was heard, and what it carries itself",
    facts=Facts("whyformer", 2026, "1 F 1 B", "attention, streams, gradient", signed=True),
    remark=remark,
)
def witness(
    question: Question,
    *,
    gradient: str = "libra",
    hearsay: float = HEARSAY,
    expected: float = EXPECTED,
    presence: float = PRESENCE,
    shifts: int = 1,
    progress: bool = True,
) -> Answer:
    """W / spread(W) + presence P / spread(P), W = sign(F) sqrt(|F| S): heard and said, and present.

    G = dy/dA of a balanced backward is what a key's value says for the target where it is read.

    Heard: F = sum_b e_b prod_{l < b} (I + hearsay E_h A_l), output side on the left. e_b is what
    the asked rows r read, r E_h A_b (G_b - expected sum_k A_b G_b); what one of many rows reads
    against a token counts as far as they agree (``Question.flow``). Said: S = sum_b r E_h G_b^+ of
    keys that a query may read. Present: P = sum_b sum_d x_b g_b. What all tokens have in common of
    W, or of P, is taken off. A spread is the standard deviation over the content of all inputs
    that the question reaches; one or two tokens, which have none to speak of, keep W + presence P.
    The map is divided by the sum of its sizes. With ``shifts`` of two
    or more, an image's map is the mean over as many shifted grids in each direction, finer than its
    patches, for as many explanations; ``progress`` shows them.
    """
    import torch

    for name, value in (("hearsay", hearsay), ("expected", expected), ("presence", presence)):
        at_least(name, value, 0)
    count_at_least("shifts", shifts, 1)
    if shifts > 1:
        same = partial(
            witness, gradient=gradient, hearsay=hearsay, expected=expected, presence=presence
        )
        return over_shifted_grids(question, same, shifts, progress)
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
    heard = shares(question, question.flow(layers, hearsay, signed=True).parts)
    said = shares(question, question.flow(values).parts)
    roots = [f.sign() * (f.abs() * s).sqrt() for f, s in zip(heard, said, strict=True)]
    word, own = (torch.cat(shares(question, parts), 1) for parts in (roots, present.parts))
    reached = (word != 0) | (own != 0)
    found = apart(word, reached) + presence * apart(own, reached)
    alike = (reached.sum(1, keepdim=True) < FEWEST) | ~found.any(1, keepdim=True)
    found = torch.where(alike, word + presence * own, found)
    return Answer.of(shares(question, found.split([part.shape[1] for part in roots], 1)))


def shares(question: Question, parts: Sequence[Tensor]) -> list[Tensor]:
    """Relevance of the content of all inputs, divided by the sum of its sizes, sample by sample."""
    shown = [
        part.masked_fill(~site.tokens.content, 0)
        for part, site in zip(parts, question.sites, strict=True)
    ]
    sizes = [part.abs().sum(1, keepdim=True) for part in shown]
    total = sum(sizes[1:], sizes[0]).clamp(min=1e-30)
    return [part / total for part in shown]


def apart(shared: Tensor, reached: Tensor) -> Tensor:
    """Shares without what all tokens have in common, divided by their standard deviation.

    Only tokens that are ``reached`` count: not those that stand behind a causal model's question.
    Where they are all alike, but for rounding errors, nothing is left.
    """
    import torch

    least = shared.masked_fill(~reached, float("inf")).amin(1, keepdim=True)
    most = shared.masked_fill(~reached, -float("inf")).amax(1, keepdim=True)
    common = least.clamp(min=0) + most.clamp(max=0)
    count = reached.sum(1, keepdim=True)
    mean = shared.sum(1, keepdim=True) / count
    square = (shared - mean).square().masked_fill(~reached, 0).sum(1, keepdim=True) / count
    width = square.sqrt()
    told = reached & (width * count > ROUNDING)
    return torch.where(told, (shared - common) / width, 0)
