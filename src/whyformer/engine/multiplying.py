"""Matrix products: on the way back, in full or in bfloat16, and forward where no gradient is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

NARROW = torch.bfloat16
#: fewer rows than this are multiplied as torch does it
FEW_ROWS = 8


def multiply(a: Tensor, b: Tensor, fast: bool = False) -> Tensor:
    """a @ b. ``fast``: of bfloat16 numbers, summed in single precision.

    In single precision on a CPU a product with one matrix is oneDNN's, where torch has it: it takes
    a tenth less than what torch itself would choose, and on AMD's processors less than half.
    """
    if fast:
        return (a.to(NARROW) @ b.to(NARROW)).to(a.dtype)
    found = by_onednn(a, b.mT)
    return a @ b if found is None else found


def by_onednn(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """x W^T + b, without a gradient; None where oneDNN does not take it, or gains nothing."""
    given = [input, weight] if bias is None else [input, weight, bias]
    rows = input.shape[:-1].numel()
    if not ONEDNN or weight.ndim != 2 or rows < FEW_ROWS or not all(map(single, given)):
        return None
    found: Tensor = ONEDNN(input, weight, bias, "none", [], "")
    return found


def single(tensor: Tensor) -> bool:
    plain = type(tensor) in (Tensor, Parameter)
    return plain and tensor.dtype is torch.float32 and tensor.device.type == "cpu"


def onednn() -> Any:
    """x W^T by oneDNN, or None: torch's own compiler calls it, but promises it to nobody."""
    if not torch.backends.mkldnn.is_available():
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


ONEDNN = onednn()
