"""What goes into a model's forward: the call, and which of its tensors an explanation is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import InputError

Inputs = Tensor | Sequence[Any] | Mapping[str, Any]

#: of several inputs, the one that says how many samples there are
MAIN_INPUTS = (
    "pixel_values", "pixel_values_videos", "input_features", "input_values", "input_ids",
    "inputs_embeds",
)  # fmt: skip
#: parts of names of inputs that say something about others and are no content themselves
BESIDE = tuple("mask bias position type bbox box label lang size grid shape".split())


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


def as_ordinary(tensor: Tensor) -> Tensor:
    """A tensor that autograd can keep, though it was made in inference mode."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor


def named(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a call; positional ones are "input", "input 1", ..."""
    places = {"input" if i == 0 else f"input {i}": value for i, value in enumerate(args)}
    return {k: v for k, v in {**places, **kwargs}.items() if isinstance(v, Tensor)}


def content(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors that an explanation is about: token ids, images, embeddings, features.

    Of several positional tensors of integers the first is the ids.
    """
    tensors = named(args, kwargs)
    found = {}
    positional_ids = False
    for name, value in tensors.items():
        if any(part in name for part in BESIDE) or value.dtype is torch.bool:
            continue
        ids = not value.is_floating_point()
        if ids and name.startswith("input") and name.partition(" ")[0] == "input":
            if positional_ids:
                continue
            positional_ids = True
        if ids or value.ndim >= 2:
            found[name] = value
    return found


def main_input(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """The input whose first axis counts the samples."""
    tensors = named(args, kwargs)
    if not tensors:
        raise InputError("the inputs hold no tensor")
    known = [name for name in MAIN_INPUTS if name in tensors]
    whole = [name for name in known if name[:5] != "pixel" or tensors[name].ndim >= 4]
    return tensors[whole[0]] if whole else next(iter(tensors.values()))


def sample_counts(args: Sequence[Any], kwargs: Mapping[str, Any]) -> set[int]:
    """How many samples each of the inputs that could be the main one holds."""
    tensors = named(args, kwargs)
    return {len(tensors[name]) for name in MAIN_INPUTS if name in tensors}


def check_inputs(tensors: Mapping[str, Tensor]) -> None:
    for tensor in tensors.values():
        if tensor.ndim == 0 or tensor.numel() == 0:
            raise InputError(
                f"an input of shape {tuple(tensor.shape)} is empty; give at least one sample "
                "with at least one token"
            )
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"the input of shape {tuple(tensor.shape)} holds NaN or infinity")
    for name, tensor in tensors.items():
        pixels = tensor.ndim == 4 and tensor.dtype is not torch.bool
        if pixels and not tensor.is_floating_point() and not any(b in name for b in BESIDE):
            raise InputError(
                f"an image of type {str(tensor.dtype).removeprefix('torch.')}; give it in floating "
                "point, scaled and normalised as the model was trained"
            )
