"""Gradients of the input, as Captum computes them: the methods that most people know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from whyformer.errors import ModelError
from whyformer.methods.question import Answer, Question
from whyformer.methods.registry import Facts, register
from whyformer.methods.varying import at_least, blank, count_at_least, extent, noise

if TYPE_CHECKING:
    from torch import Tensor

#: rows of interpolated inputs that go through the model together
ROWS_AT_ONCE = 16


@register(
    "integrated_gradients",
    "the gradient on the way from a baseline to the input, times the way "
    "(Sundararajan et al. 2017; by Captum)",
    on_request=True,
    needs="captum",
    facts=Facts(
        "Sundararajan et al.",
        2017,
        "51 F 50 B",
        "gradients of inputs on the way from a baseline",
        signed=True,
        complete=True,
        works="one input",
    ),
)
def integrated_gradients(
    question: Question, *, steps: int = 50, baseline: float | Tensor = 0.0
) -> Answer:
    """Sums to the class's rise from the baseline to the input, the closer the more steps.

    The baseline holds one value, or a tensor, in the model's own units: 0 is the colour that the
    normalisation maps to it, or an embedding without any direction. Special tokens and padding
    keep theirs. A target that is a function counts by its derivative at the input.
    """
    from captum.attr import IntegratedGradients

    count_at_least("steps", steps, 1)
    with differentiable(question) as (target, root, beside):
        values = IntegratedGradients(target).attribute(
            root,
            blank(question, root.detach(), baseline),
            additional_forward_args=beside,
            n_steps=steps,
            internal_batch_size=max(ROWS_AT_ONCE, len(root)),
        )
    return question.at_input(values.detach())


@register(
    "input_x_gradient",
    "the input times its gradient (Shrikumar et al. 2016; by Captum)",
    on_request=True,
    needs="captum",
    facts=Facts("Shrikumar et al.", 2016, "2 F 1 B", "gradient", signed=True, works="one input"),
)
def input_x_gradient(question: Question) -> Answer:
    """x * dy/dx: the first-order share of every pixel or embedding in y."""
    from captum.attr import InputXGradient

    return at_once(question, InputXGradient)


@register(
    "saliency",
    "the size of the input's gradient (Simonyan et al. 2013; by Captum)",
    on_request=True,
    needs="captum",
    facts=Facts("Simonyan et al.", 2013, "2 F 1 B", "gradient", works="one input"),
)
def saliency(question: Question) -> Answer:
    """|dy/dx|."""
    from captum.attr import Saliency

    return at_once(question, Saliency)


@register(
    "smoothgrad",
    "the size of the gradient, averaged over noisy copies of the input "
    "(Smilkov et al. 2017; by Captum)",
    on_request=True,
    needs="captum",
    facts=Facts(
        "Smilkov et al.", 2017, "26 F 25 B", "gradients of noisy copies", works="one input"
    ),
)
def smoothgrad(question: Question, *, samples: int = 25, spread: float = 0.15) -> Answer:
    """The mean of |dy/dx| at x + noise, which has ``spread`` times the input's range.

    Captum's ``NoiseTunnel(Saliency)`` computes the same, but draws from the global generator, a
    whole batch at once. Here every sample gets the same noise, from generators of its own, so that
    neither its neighbours in the batch nor their padding change a map.
    """
    import torch
    from captum.attr import Saliency

    count_at_least("samples", samples, 1)
    at_least("spread", spread, 0)
    with differentiable(question) as (target, root, beside):
        mean, scale = torch.zeros_like(root), spread * extent(question, root)
        for number in range(samples):
            noisy = (root.detach() + scale * noise(root, number)).requires_grad_()
            mean += Saliency(target).attribute(noisy, additional_forward_args=beside) / samples
    return question.at_input(mean.detach())


def at_once(question: Question, kind: Callable[..., Any]) -> Answer:
    """By an attribution of Captum's that needs one forward and one backward."""
    with differentiable(question) as (target, root, beside):
        values = kind(target).attribute(root, additional_forward_args=beside)
    return question.at_input(values.detach())


@contextmanager
def differentiable(
    question: Question,
) -> Iterator[tuple[Callable[..., Tensor], Tensor, tuple[Any, ...]]]:
    """The target as a function of the input, the input, and what Captum must expand beside it."""
    import torch

    if len(question.sites) > 1:
        raise ModelError(
            "Captum's methods vary one input, and the model reads "
            f"{len(question.sites)}; use gradient_x_input or deeplift"
        )
    forward = question.forward

    def target(root: Tensor, seed: Tensor, *sides: Tensor) -> Tensor:
        return (forward(root, *sides) * seed).flatten(1).sum(1)

    with torch.inference_mode(False), torch.enable_grad():
        root = forward.root.clone().requires_grad_()
        yield target, root, (question.seed.clone(), *forward.sides)
