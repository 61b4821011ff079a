"""What goes into a model's forward, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import InputError, ModelError

Inputs = Tensor | Sequence[Any] | Mapping[str, Any]


def as_call(inputs: Inputs) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments, their tensors detached from the caller's graph."""

    def own(value: Any) -> Any:
        return as_ordinary(value).detach() if isinstance(value, Tensor) else value

    if isinstance(inputs, Tensor):
        return [own(inputs)], {}
    if isinstance(inputs, Mapping):
        return [], {key: own(value) for key, value in inputs.items()}
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        return [own(value) for value in inputs], {}
    raise InputError(
        f"inputs must be a tensor, a tuple of tensors or a mapping, not {type(inputs).__name__}"
    )


def full_precision(tensor: Tensor) -> torch.autocast:
    """The caller's autocast does not apply to the recording."""
    return torch.autocast(tensor.device.type, enabled=False)


def as_ordinary(tensor: Tensor) -> Tensor:
    """A tensor that autograd can keep, though it was made in inference mode."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor


def as_logits(output: Any, batch: int) -> Tensor:
    """The logits of whatever a classifier returns, (batch, classes)."""
    logits = getattr(output, "logits", None)
    if logits is None and isinstance(output, Mapping):
        logits = output.get("logits")
    if logits is None and isinstance(output, tuple | list) and output:
        logits = output[0]
    if logits is None:
        logits = output
    if not isinstance(logits, Tensor):
        raise ModelError(
            f"the model returned {type(output).__name__}; a classifier returns a tensor of logits "
            "or an object with .logits"
        )
    if logits.ndim == 1 and logits.shape[0] == batch:
        logits = logits.unsqueeze(-1)
    if logits.ndim != 2 or logits.shape[0] != batch:
        raise ModelError(
            f"logits of shape {tuple(logits.shape)} for a batch of {batch}; expected "
            "(batch, classes): wrap the model so that it returns one row of class scores a sample"
        )
    return logits
