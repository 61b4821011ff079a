"""What comes out of a model's forward, and which tensor of it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import ModelError

#: by name what a head answers with, the first that is there
ANSWERS = (
    "logits", "logits_per_image", "prediction_logits", "seq_relationship_logits",
    "span_logits", "class_queries_logits", "prediction_outputs", "reconstruction",
    "predicted_depth", "pooler_output", "last_hidden_state",
)  # fmt: skip

Output = str | Callable[[Any], Any] | None


def chosen(output: Any, pick: Output) -> Any:
    """The tensor that is asked about: what ``pick`` says, or the head's own answer.

    Start and end of an answer are stacked, (batch, tokens, 2).
    """
    if callable(pick):
        return pick(output)
    if isinstance(pick, str):
        found = field(output, pick)
        if found is None:
            raise ModelError(
                f"the model returned no {pick!r}; it returned {', '.join(fields(output))}"
            )
        return found
    start, end = field(output, "start_logits"), field(output, "end_logits")
    if isinstance(start, Tensor) and isinstance(end, Tensor) and start.shape == end.shape:
        return torch.stack((start, end), -1)
    for name in ANSWERS:
        found = field(output, name)
        if isinstance(found, Tensor) and found.is_floating_point():
            return found
    if isinstance(output, Tensor):
        return output
    parts = output.values() if isinstance(output, Mapping) else output
    if isinstance(output, Mapping | tuple | list):
        first = next((t for t in parts if isinstance(t, Tensor) and t.is_floating_point()), None)
        if first is not None:
            return first
    raise ModelError(
        f"the model returned {type(output).__name__}; expected a tensor of logits or an object "
        "with .logits: say what is asked about with Explainer(model, output=lambda out: ...)"
    )


def field(output: Any, name: str) -> Any:
    if isinstance(output, Mapping):
        return output.get(name)
    return None if isinstance(output, Tensor) else getattr(output, name, None)


def fields(output: Any) -> list[str]:
    if isinstance(output, Mapping):
        return list(output)
    return [type(output).__name__]


def as_output(output: Any, pick: Output) -> Tensor:
    """The chosen tensor, with an axis behind that of the samples."""
    found = chosen(output, pick)
    if not isinstance(found, Tensor):
        raise ModelError(
            f"what is asked about is {type(found).__name__}; Explainer(model, output=...) must "
            "give a tensor"
        )
    if found.ndim == 0:
        raise ModelError("the model returned one number for the whole batch; expected one a sample")
    return found.unsqueeze(-1) if found.ndim == 1 else found


def check_samples(answer: Tensor, batch: int) -> Tensor:
    if len(answer) != batch:
        raise ModelError(
            f"the output has {len(answer)} rows for a batch of {batch}; expected the samples on "
            "its first axis: Explainer(model, output=...) can give them"
        )
    return answer
