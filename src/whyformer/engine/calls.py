"""What is called, by whom, and on whose values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_stack
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from whyformer.engine.following import carried
from whyformer.engine.matrices import Contraction, Product
from whyformer.engine.operations import Operation
from whyformer.errors import ModelError

CHECKPOINT = "torch/utils/checkpoint.py"
#: what is said of a call that autograd was told not to see
NO_GRAD = "under torch.no_grad()"
_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


def function_name(func: Callable[..., Any]) -> str:
    name: str = getattr(func, "__name__", "")
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", name))
    return name.partition(".")[0] or repr(func)


def caller() -> str:
    """The line of the model's code that made a call."""
    return next(place_of(*pair) for pair in walk_stack(sys._getframe(1)) if not is_ours(pair[0]))


def is_ours(frame: FrameType) -> bool:
    """Whether torch or the engine runs there, and not the model's own code."""
    return frame.f_globals.get("__name__", "").startswith(("torch", "whyformer.engine"))


def place_of(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{line}"


def held_fixed(value: Tensor) -> Tensor:
    """A value as a constant, on purpose: where others read it, the graph has no cut."""
    constant = value.detach()
    vars(constant).pop("_cut", None)
    return constant


def refuse_checkpoint() -> None:
    """Reentrant checkpoints run a part of the forward where autograd does not see it."""
    stack = walk_stack(sys._getframe(1))
    if any(frame.f_code.co_filename.endswith(CHECKPOINT) for frame, _ in stack):
        raise ModelError(
            f"torch.utils.checkpoint ({caller()}) hides a part of the model from autograd; give it "
            "use_reentrant=False, or switch checkpoints off, as gradient_checkpointing_disable() "
            "does for Hugging Face models"
        )


def transformed() -> bool:
    """Whether a call stands inside torch.vmap or another transform, which autograd follows."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def altered(device: str) -> bool:
    """Whether the model has set autocast, or a checkpoint the hooks of saved tensors."""
    return torch.is_autocast_enabled(device) or bool(_hooks is not None and _hooks(False))


@contextmanager
def plainly(device: str) -> Iterator[None]:
    """Without autocast, and without a checkpoint's hooks."""
    keep = saved_tensors_hooks(lambda x: x, lambda x: x)
    with torch.autocast(device, enabled=False), keep:
        yield


def crossed(operation: Operation, operands: tuple[Tensor, ...]) -> bool:
    """Whether one sample's value meets another's: their axes of samples are not the same."""
    if isinstance(operation, Product) and matrices(operands):
        return True
    places = set()
    for operand in operands:
        samples = carried(operand)
        if samples is None or samples.axis is None:
            continue
        place = samples.axis - operand.ndim
        if isinstance(operation, Product) and not isinstance(operation, Contraction) and place > -3:
            return True
        places.add((place, len(samples.ids)))
    return len(places) > 1 and not isinstance(operation, Contraction)


def matrices(operands: tuple[Tensor, ...]) -> bool:
    """Two matrices have no other axis for samples than those that they are multiplied over."""
    return all(operand.ndim == 2 for operand in operands)


def note_meeting(operation: Operation, operands: tuple[Tensor, ...]) -> None:
    """Note whether samples meet, and which of a product's columns are of a row's own sample."""
    operation.crosses = len(operands) > 1 and crossed(operation, operands)
    if isinstance(operation, Product) and not isinstance(operation, Contraction):
        operation.own(own_columns(operands))


def own_columns(operands: tuple[Tensor, ...]) -> Tensor | bool:
    """Of u v, which columns are of a row's own sample: (rows, columns), or all, or none known.

    A sample's map must not depend on how large another sample's scores are.
    """
    if matrices(operands):
        return False
    u, v = operands
    rows, columns = carried(u), carried(v)
    if columns is None or columns.axis != v.ndim - 1:
        return True
    if rows is None or rows.axis != u.ndim - 2 or rows.batch != columns.batch:
        return False
    own = rows.ids.unsqueeze(-1) == columns.ids
    return True if bool(own.all()) else own.to(u.device)
