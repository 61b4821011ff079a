"""One sample of a batch's explanation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from whyformer.explanation import Explanation


def select(explanation: Explanation, sample: int) -> Explanation:
    """A batch of one: of every tensor and list over the samples, what is the sample's."""
    batch, one = len(explanation), slice(sample, sample + 1)

    def of(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value[one] if len(value) == batch else value
        if isinstance(value, list):
            tensors = bool(value) and isinstance(value[0], Tensor)
            return [of(part) for part in value] if tensors else value[one]
        return value

    def within(record: Any, *names: str) -> Any:
        return replace(record, **{name: of(getattr(record, name)) for name in names})

    parts = tuple(
        replace(
            within(part, "relevance", "input_relevance", "pieces", "picture", "crops"),
            tokens=within(part.tokens, "content"),
            sound=part.sound and within(part.sound, "samples"),
        )
        for part in explanation.parts
    )
    blocks = explanation.blocks and within(explanation.blocks, "attention", "gradient", "relevance")
    selected = within(explanation, "logits", "target", "position", "rows", "matrix", "boxes")
    return replace(selected, parts=parts, blocks=blocks)
