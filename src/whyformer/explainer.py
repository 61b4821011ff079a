"""Ask a model why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.inputs import Inputs
from whyformer.engine.outputs import Output
from whyformer.engine.precision import is_fast
from whyformer.engine.rules import DEFAULT_PRESET, get_preset
from whyformer.errors import ModelError
from whyformer.explanation import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Explanation
from whyformer.methods import DEFAULT_METHOD, get_method
from whyformer.pooling import Pooling
from whyformer.recording import Recording
from whyformer.targets import Target, label_list


class Explainer:
    """Explains an unmodified model: any ``nn.Module`` with a differentiable answer.

    ``output`` says what of the model's output is asked about: a field's name, or a function of
    it; by default the head's own answer. ``labels`` names the classes (Hugging Face models bring
    theirs). ``pooling`` and ``grid`` overrule what is read off the model: which row the
    classifier looks at, and the patch grid.

    Examples:
        >>> explainer = whyformer.Explainer(whyformer.load("demo-vision").model)
        >>> explanation = explainer(torch.zeros(2, 3, 96, 96), target=3)
        >>> explanation.image_map().shape
        torch.Size([2, 96, 96])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        output: Output = None,
        labels: Mapping[int, str] | Sequence[str] | None = None,
        pooling: Pooling = None,
        grid: tuple[int, int] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise ModelError(f"Explainer takes an nn.Module, not {type(model).__name__}")
        self.model = model
        self.output = output
        #: labels that nobody gave are used only where they fit
        self.labels_given = labels is not None
        if labels is None:
            labels = getattr(getattr(model, "config", None), "id2label", None)
        self.labels = label_list(labels)
        self.problem = problem_of(model)
        self.pooling = pooling
        self.grid = grid

    def __call__(
        self,
        inputs: Inputs,
        target: Target = None,
        method: str = DEFAULT_METHOD,
        preset: str = DEFAULT_PRESET,
        *,
        content: Tensor | None = None,
        keep_blocks: bool = False,
        matrix: bool = False,
        precision: str = "full",
        **options: Any,
    ) -> Explanation:
        """Explain a batch: one forward, then what the method needs.

        ``precision`` "fast": products on the way back are of bfloat16 numbers, summed in float32.
        """
        maps = get_method(method).maps or keep_blocks or matrix
        get_preset(preset), is_fast(precision)
        recording = Recording(self, inputs, content=content, remember=False, maps=maps)
        return recording.explain(
            target,
            method,
            preset,
            keep_blocks=keep_blocks,
            matrix=matrix,
            precision=precision,
            **options,
        )

    def place(self, inputs: Inputs) -> Inputs:
        """Inputs on the model's device; images and embeddings in its floating type, or float32."""
        parameter = next(self.model.parameters(), None)
        if parameter is None:
            return inputs
        dtype = torch.float64 if parameter.dtype is torch.float64 else torch.float32

        def move(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return value.to(parameter.device, dtype if value.is_floating_point() else None)

        if isinstance(inputs, Tensor):
            return move(inputs)
        if isinstance(inputs, Mapping):
            skip = ("special_tokens_mask", "offset_mapping")
            return {key: move(value) for key, value in inputs.items() if not key.endswith(skip)}
        if isinstance(inputs, Sequence) and not isinstance(inputs, str):
            return [move(value) for value in inputs]
        return inputs

    def record(self, inputs: Inputs, *, content: Tensor | None = None) -> Recording:
        """Run the forward once and keep it: further targets and methods cost no new one."""
        return Recording(self, inputs, content=content, remember=True)

    def attribute(
        self,
        inputs: Inputs,
        target: Target = None,
        method: str = DEFAULT_METHOD,
        preset: str = DEFAULT_PRESET,
        **options: Any,
    ) -> Tensor:
        """The bare relevance of the content tokens, as Captum's ``attribute`` would return it.

        Images: (batch, patches). Text and sequences: (batch, tokens), special tokens zero.
        """
        explanation = self(inputs, target, method, preset, **options)
        content, relevance = explanation.content, explanation.relevance
        if explanation.grid is not None:
            return relevance[..., explanation.tokens.patches]
        shown = content if relevance.ndim == 2 else content.unsqueeze(1)
        return relevance.masked_fill(~shown, 0)


def problem_of(model: nn.Module) -> str:
    """What the head tells, by the model's own configuration: classes, labels or a number."""
    config = getattr(model, "config", None)
    declared = getattr(config, "problem_type", None)
    if declared in (SINGLE_LABEL, MULTI_LABEL, REGRESSION):
        return declared
    return REGRESSION if getattr(config, "num_labels", None) == 1 else SINGLE_LABEL
