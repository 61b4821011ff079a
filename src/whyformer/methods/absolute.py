"""Relevance by absolute contributions: RAP (Nam et al. 2020) and AGF (Gur et al. 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "rap",
    "relevance to what excites and to what inhibits, shifted so that the sums agree "
    "(Nam et al. 2020)",
    on_request=True,
    facts=Facts("Nam et al.", 2020, "1 F 1 B", "relevance", signed=True, works="any model"),
)
def rap(question: Question) -> Answer:
    """Relative attributing propagation to the input, signed.

    The head shares relevance out by absolute contributions. Every learned map below gives all of
    it to what excites, and to what inhibits by its share of the absolute contributions; then each
    row is shifted so that its sum is kept. Sums and attention, which the paper does not know, go
    by absolute values, attention to V alone. Only the head's row depends on the class: the maps of
    two classes are nearly the same.
    """
    from whyformer.engine.graph import origin
    from whyformer.engine.rules.named import rap_table

    head = origin(question.trace.output)
    learned = head is not None and head.kind == "learned"
    return question.at_input(*question.input_relevance(rap_table(head if learned else None)))


@register(
    "agf",
    "absolute contributions, guided by values times their gradients (Gur et al. 2021)",
    on_request=True,
    facts=Facts(
        "Gur, Ali and Wolf", 2021, "1 F 2 B", "relevance, gradient", signed=True, works="any model"
    ),
)
def agf(question: Question) -> Answer:
    """Attribution guided factorisation as it is on a Transformer: C + M - shift at every Linear.

    C is relevance by absolute contributions, M the positive part of a token's value times its
    gradient, divided by the sample's highest; the shift keeps the sum. The factorisation of
    feature maps, which the paper has beside M, is of convolutions: a Transformer has none behind
    its patches.
    """
    from whyformer.engine.rules.named import agf_table, keeping_products

    products: dict[Any, Tensor] = {}
    question.input_relevance(keeping_products(products), question.start)
    return question.at_input(*question.input_relevance(agf_table(products)))
