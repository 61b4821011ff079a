"""Half precision is for storage: relevance divides by small sums.

A half-precision model is recorded in single precision, with its own weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

HALF = (torch.bfloat16, torch.float16)
CASTS = frozenset({"to", "type", "type_as", "bfloat16", "half"})


def widen_cast(result: Tensor, source: Tensor) -> Tensor:
    """A cast to half precision is not taken; one to another device is."""
    return source.to(result.device) if result.dtype in HALF else result


def widen(
    name: str, args: Any, kwargs: Any, is_activation: Callable[[Tensor], bool]
) -> tuple[Any, Any]:
    """Half-precision operands in single precision, but for one that is written to."""

    def wide(value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dtype not in HALF:
            return value
        return value.float() if is_activation(value) else value.detach().float()

    kept = 1 if name == "__setitem__" or name.endswith("_") else 0
    return (*args[:kept], *tree_map(wide, tuple(args[kept:]))), tree_map(wide, kwargs)


def full_precision(tensor: Tensor) -> torch.autocast:
    """The caller's autocast does not apply to the recording."""
    return torch.autocast(tensor.device.type, enabled=False)
