"""whyformer's methods in Captum's clothes: for its metrics, its noise tunnel and its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.rules import DEFAULT_PRESET, get_preset
from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.interop.shapes import Logits, as_explainer, at_inputs, by_name, explain
from whyformer.methods import DEFAULT_METHOD, get_method

try:
    from captum.attr import Attribution
    from captum.log import log_usage
except ImportError as error:
    raise ImportError(f"captum is needed: pip install 'whyformer[captum]' ({error})") from error

__all__ = ["Logits", "WhyformerAttribution"]


class WhyformerAttribution(Attribution):  # type: ignore[misc]
    """A Captum attribution that asks whyformer, and answers in the inputs' own shape."""

    def __init__(
        self,
        model: nn.Module | Explainer,
        method: str = DEFAULT_METHOD,
        preset: str = DEFAULT_PRESET,
        **options: Any,
    ) -> None:
        get_method(method), get_preset(preset)
        self.explainer = as_explainer(model)
        self.method, self.preset, self.options = method, preset, options
        super().__init__(Logits(self.explainer.model))

    @log_usage()  # type: ignore[untyped-decorator]  # NoiseTunnel calls what this wraps
    def attribute(
        self,
        inputs: Tensor | tuple[Tensor, ...],
        target: int | str | Tensor | Sequence[int] | None = None,
        additional_forward_args: Any = None,
    ) -> Any:
        """Relevance in the shape of the inputs, its sum kept; a tuple for a tuple.

        ``additional_forward_args`` follow the inputs in the model's forward, such as a text's
        attention mask. Without a target the predicted class is explained.
        """
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(given) != 1 or not isinstance(given[0], Tensor):
            raise InputError(
                f"{len(given)} inputs were given; expected one tensor of pixels, features or token "
                "ids, and the rest as additional_forward_args"
            )
        more = additional_forward_args
        beside = more if isinstance(more, tuple) else () if more is None else (more,)
        explanation = explain(
            self.explainer,
            by_name(self.explainer.model, (*given, *beside)),
            one_each(target),
            self.method,
            self.preset,
            **self.options,
        )
        found = at_inputs(explanation, given[0])
        return (found,) if isinstance(inputs, tuple) else found


def one_each(target: Any) -> Any:
    """Captum's lists hold one class a sample, and a tensor of one element means every sample."""
    if isinstance(target, Tensor) and target.numel() == 1:
        return int(target)
    if isinstance(target, list) and all(isinstance(item, int) for item in target):
        return int(target[0]) if len(target) == 1 else torch.tensor(target)
    return target
