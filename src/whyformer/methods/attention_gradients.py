"""What a token is looked at, weighed by gradients, block by block: AttCAT and Grad-SAM."""

from __future__ import annotations

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register


@register(
    "attcat",
    "streams times their gradients, weighed by the attention that each token gets "
    "(Qiang et al. 2022)",
    on_request=True,
    facts=Facts(
        "Qiang et al.",
        2022,
        "1 F 1 B",
        "attention, streams, gradient",
        signed=True,
        works="self-attention",
    ),
)
def attcat(question: Question, *, gradient: str = "gradient") -> Answer:
    """sum_b (sum_d x_b g_b) * E_{h,query} A_b, signed; x_b is the stream that enters block b.

    ``gradient`` names the backward that g is of: "gradient", or a balanced one, "cp", "libra" or
    "attnlrp". Padding is no query.
    """
    received = question.onto_streams([a.mean(1) for a in question.attention], "attcat")
    products = question.stream_products(gradient)
    return question.carry([x * a for x, a in zip(products, received, strict=True)])


@register(
    "grad_sam",
    "attention times the positive part of its gradient, averaged over blocks, heads and queries "
    "(Barkan et al. 2021)",
    on_request=True,
    facts=Facts("Barkan et al.", 2021, "1 F 1 B", "attention, gradient", works="self-attention"),
)
def grad_sam(question: Question, *, gradient: str = "gradient") -> Answer:
    """E_{b,h,query} (A_b * G_b^+).

    Every query counts alike, whether the classifier reads it or not. ``gradient`` names the
    backward that G is of.
    """
    slopes = question.gradients(table=gradient)
    layers = [(a * g.clamp(min=0)).mean(1) for a, g in zip(question.attention, slopes, strict=True)]
    received = question.onto_streams(layers, "grad_sam")
    return question.carry([mass / len(layers) for mass in received])
