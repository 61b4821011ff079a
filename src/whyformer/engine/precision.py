"""Narrow types are for storage: relevance divides by small sums.

A half-precision model is recorded in single precision, with its own weights. A model in double
precision that casts its activations down for a while is recorded in double precision throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from whyformer.errors import UnknownNameError, nearest

#: what products on the way back may be: of the recording's own numbers, or of bfloat16 ones
PRECISIONS = ("full", "fast")
HALF = (torch.bfloat16, torch.float16)
CASTS = frozenset({"to", "type", "type_as", "bfloat16", "half", "float"})


def widen_cast(result: Tensor, source: Tensor) -> Tensor:
    """A cast to a narrower type is not taken; one to another device is."""
    if not result.is_floating_point() or not source.is_floating_point():
        return result
    wide = torch.promote_types(source.dtype, result.dtype)
    return result if result.dtype == wide else source.to(result.device)


def mixed(tensors: Sequence[Tensor]) -> bool:
    """Whether a call's floating types differ, or are narrow."""
    kinds = {t.dtype for t in tensors if t.is_floating_point()}
    return len(kinds) > 1 or any(kind in HALF for kind in kinds)


def widen(
    name: str,
    args: Any,
    kwargs: Any,
    tensors: Sequence[Tensor],
    is_activation: Callable[[Tensor], bool],
) -> tuple[Any, Any]:
    """All operands in the widest of their types, single at least; not one that is written to."""
    wide = torch.float32
    for tensor in tensors:
        if tensor.is_floating_point():
            wide = torch.promote_types(wide, tensor.dtype)

    def cast(value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point() or value.dtype == wide:
            return value
        return value.to(wide) if is_activation(value) else value.detach().to(wide)

    kept = 1 if name == "__setitem__" or name.endswith("_") else 0
    return (*args[:kept], *tree_map(cast, tuple(args[kept:]))), tree_map(cast, kwargs)


def full_precision(tensor: Tensor) -> torch.autocast:
    """The caller's autocast does not apply to the recording."""
    return torch.autocast(tensor.device.type, enabled=False)


def is_fast(precision: str) -> bool:
    """Whether products on the way back are to be in bfloat16."""
    if precision not in PRECISIONS:
        raise UnknownNameError(
            f"unknown precision {precision!r}; {nearest(str(precision), PRECISIONS)}"
        )
    return precision == "fast"
