"""Contrastive relevance: that of the class that is asked about minus that of all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.errors import TargetError, UnknownNameError, nearest
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, get_method, register

if TYPE_CHECKING:
    from torch import Tensor

#: the methods of relevance, all of which can be contrasted, and what each is called
OF = {"attribution": "lrp:rules=attribution"} | {
    name: name
    for name in (
        "lrp",
        "partial_lrp",
        "transformer_attribution",
        "ablation_no_gradient",
        "ablation_last_block",
        "ablation_second_block",
        "attnlrp",
        "cp_lrp",
        "excitation_backprop",
        "rap",
        "agf",
    )
}


@register(
    "clrp",
    "relevance of the class minus that of all others alike, positive part (Gu et al. 2018)",
    on_request=True,
    facts=Facts("Gu et al.", 2018, "1 F 2 B", "relevance, of all classes too", works="any model"),
)
def clrp(question: Question, *, of: str = "lrp") -> Answer:
    """(R(1_t) - R(q))^+ with q_i = 1 / (C - 1) for the other classes, of every pixel and token.

    The paper starts both at y_t; relevance starts at one here, so that a negative logit does not
    turn the map round. ``of`` is what is contrasted: any method of relevance, such as "lrp" or
    "excitation_backprop", by its name; "attribution" is the paper's own rules to the input.
    """
    target, others = chosen_and_others(question, "clrp")
    count = others.sum(-1, keepdim=True).clamp(min=1)
    return contrasted(question, target, others / count, of)


@register(
    "sglrp",
    "relevance of the class minus that of its rivals by their probability, positive part "
    "(Iwana et al. 2019)",
    on_request=True,
    facts=Facts(
        "Iwana et al.", 2019, "1 F 2 B", "relevance, of all classes too", works="any model"
    ),
)
def sglrp(question: Question, *, of: str = "lrp") -> Answer:
    """(R(1_t) - R(q))^+ with q_i = p_i / (1 - p_t), p the softmax of the logits.

    The paper starts at p_t (1 - p_t) and p_t p_i, the softmax's gradient: divided by their common
    sum they are 1 and q, also where p_t rounds to one. ``of`` as in ``clrp``.
    """
    target, others = chosen_and_others(question, "sglrp")
    logits = question.trace.output.detach().masked_fill(target, float("-inf"))
    return contrasted(question, target, logits.softmax(-1) * others, of)


def contrasted(question: Question, target: Tensor, others: Tensor, of: str) -> Answer:
    """The positive part of a method's answer for one seed minus its answer for another."""
    if of not in OF:
        raise UnknownNameError(f"unknown relevance {of!r} to contrast; {nearest(of, OF)}")
    method = get_method(OF[of])
    mine, theirs = (method(question.about(seed.to(question.seed))) for seed in (target, others))
    pixels = None
    if mine.input_relevance is not None and theirs.input_relevance is not None:
        pixels = (mine.input_relevance - theirs.input_relevance).clamp(min=0)
    pairs = zip(mine.parts, theirs.parts, strict=True)
    return Answer.of(((a - b).clamp(min=0) for a, b in pairs), pixels)


def chosen_and_others(question: Question, method: str) -> tuple[Tensor, Tensor]:
    """Where the target's class stands in the output, and where the classes beside it do."""
    seed = question.seed
    if seed.shape[-1] < 2:
        raise TargetError(
            f"{method} contrasts a class with the others, but the model has one output: use lrp"
        )
    target = seed == 1
    if bool(((seed != 0) & ~target).any()) or bool((target.flatten(1).sum(1) > 1).any()):
        raise TargetError(
            f"{method} contrasts one class with all others, but the target is a function or a "
            "contrast of several outputs; give a class, or use lrp"
        )
    return target, target.any(-1, keepdim=True) & ~target
