"""From what other packages pass around to whyformer's inputs, and from tokens back to inputs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.engine.inputs import Inputs
from whyformer.engine.outputs import as_output, check_samples
from whyformer.explainer import Explainer
from whyformer.explanation import Explanation
from whyformer.methods import get_method
from whyformer.targets import Target


class Logits(nn.Module):
    """A Hugging Face classifier that returns the bare logits, as Captum and Quantus expect."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.config: Any = getattr(model, "config", None)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        first = next(v for v in (*args, *kwargs.values()) if isinstance(v, Tensor))
        return check_samples(as_output(self.model(*args, **kwargs), None), len(first))


def as_explainer(given: Explainer | nn.Module) -> Explainer:
    return given if isinstance(given, Explainer) else Explainer(given)


def explain(
    explainer: Explainer, inputs: Inputs, target: Target, method: str, preset: str, **options: Any
) -> Explanation:
    """Other packages always name a class; a method that gives the same map for all is asked for
    none."""
    asked = target if get_method(method).class_specific else None
    return explainer(inputs, asked, method, preset, **options)


def by_name(model: nn.Module, values: Sequence[Any]) -> Inputs:
    """Positional inputs under the names that the model's forward gives them.

    A mask is known for one by its name.
    """
    while isinstance(model, Logits):
        model = model.model
    parameters = list(inspect.signature(model.forward).parameters.values())
    plain = [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if len(values) == 1 or len(plain) < len(values):
        return values[0] if len(values) == 1 else values
    named = zip(plain, values, strict=False)
    return {name: value for name, value in named if value is not None}


def at_inputs(explanation: Explanation, inputs: Tensor) -> Tensor:
    """Relevance in the shape of the inputs, its sum over the content tokens kept.

    A patch's relevance is spread evenly over its pixels and their channels, a token's over its
    features. Methods that reach the pixels themselves keep theirs.
    """
    relevance = explanation.relevance
    if explanation.grid is None:
        shown = relevance.masked_fill(~explanation.content, 0)[:, -inputs.shape[1] :]
        if inputs.ndim == 2:
            return shown
        return (shown / inputs.shape[2]).unsqueeze(-1).expand(*inputs.shape).contiguous()
    pixels = explanation.input_relevance
    if pixels is None:
        pixels = spread(explanation.tokens.to_map(relevance), inputs.shape[-2:])
    return (pixels / inputs.shape[1]).unsqueeze(1).expand(*inputs.shape).contiguous()


def spread(patches: Tensor, size: Sequence[int]) -> Tensor:
    """(batch, rows, columns) to (batch, height, width): every patch shared among its pixels."""
    rows, columns = patches.shape[-2:]
    numbers = torch.arange(rows * columns, device=patches.device).view(1, 1, rows, columns)
    owner = F.interpolate(numbers.double(), tuple(size), mode="nearest-exact").long().flatten()
    share = patches.flatten(1) / owner.bincount(minlength=rows * columns).clamp(min=1)
    return share[:, owner].unflatten(1, tuple(size))
