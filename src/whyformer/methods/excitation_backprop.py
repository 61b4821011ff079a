"""Excitation Backprop (Zhang et al. 2016): the probability that a way from the class ends here."""

from __future__ import annotations

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register


@register(
    "excitation_backprop",
    "the probability that a walk down excitatory connections ends at a token (Zhang et al. 2016)",
    on_request=True,
    facts=Facts("Zhang et al.", 2016, "1 F 1 B", "relevance", works="any model"),
)
def excitation_backprop(question: Question) -> Answer:
    """P_j = sum_i x_j^+ w_ji^+ / (sum_j' x_j'^+ w_j'i^+) P_i, from one at the class to the input.

    Attention is a set of weights: a walk passes A V to the values. At the pixels, which have both
    signs, it ends by the z^B rule. The method was made for networks of ReLUs, whose values are
    never negative; behind LayerNorm half of a Transformer's are, and no walk passes them. It is
    nearly class-blind, as its authors say of their own: ``clrp(of="excitation_backprop")`` is their
    remedy, the contrast with the other classes.
    """
    from whyformer.engine.rules.named import EXCITATION

    return question.at_input(*question.input_relevance(EXCITATION))
