"""Gradients of streams: they multiply no maps, so they work on every architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register

if TYPE_CHECKING:
    from torch import Tensor


@register(
    "gradient_x_input",
    "the input times its gradient, plain or balanced: AttnLRP, CP-LRP, LibraGrad",
    maps=False,
    on_request=True,
    facts=Facts(
        "Mehri et al.",
        2025,
        "1 F 1 B",
        "gradient",
        signed=True,
        complete=True,
        works="any model",
    ),
)
def gradient_x_input(question: Question, *, gradient: str = "libra") -> Answer:
    """sum_d x_1 g_1, signed, at the pixels, features or embeddings.

    ``gradient`` is the table of the backward: "gradient", "cp" (Ali et al. 2022), "libra" (Mehri
    et al. 2025) or "attnlrp" (Achtibat et al. 2024).
    """
    found = question.input_gradients(gradient)
    return question.at_input(*(value * slope for value, slope in found))


@register(
    "attnlrp",
    "the input times its gradient, attention and norms balanced (Achtibat et al. 2024)",
    maps=False,
    on_request=True,
    facts=Facts("Achtibat et al.", 2024, "1 F 1 B", "gradient", signed=True, works="any model"),
)
def attnlrp(question: Question) -> Answer:
    """``gradient_x_input(gradient="attnlrp")``: AttnLRP's epsilon form as a gradient."""
    return gradient_x_input(question, gradient="attnlrp")


@register(
    "cp_lrp",
    "the input times its gradient, attention and deviations held constant (Ali et al. 2022)",
    maps=False,
    on_request=True,
    facts=Facts("Ali et al.", 2022, "1 F 1 B", "gradient", signed=True, works="any model"),
)
def cp_lrp(question: Question) -> Answer:
    """``gradient_x_input(gradient="cp")``: conservative propagation as a gradient."""
    return gradient_x_input(question, gradient="cp")


@register(
    "fullgrad",
    "streams times their gradients, summed over the blocks (FullGrad+; Mehri et al. 2025)",
    maps=False,
    on_request=True,
    facts=Facts(
        "Mehri et al.", 2025, "1 F 1 B", "streams, gradient", signed=True, works="any model"
    ),
)
def fullgrad(question: Question, *, gradient: str = "libra") -> Answer:
    """sum_b sum_d x_b g_b, signed, each block's carried down to the input's tokens.

    An input whose tokens no stream holds, such as one that latents read, is asked at itself.
    """
    return stream_relevance(question, gradient)


def stream_relevance(
    question: Question, gradient: str, each_map: Callable[[int, Tensor], None] | None = None
) -> Answer:
    """What ``fullgrad`` answers; ``each_map`` is called with every map's gradient on the way."""
    products = question.stream_products(gradient, each_map)
    found = question.carry(products)
    if all(bool(part.any()) for part in found.parts):
        return found
    own = gradient_x_input(question, gradient=gradient)
    pairs = zip(found.parts, own.parts, strict=True)
    return Answer.of(part if bool(part.any()) else at_input for part, at_input in pairs)
