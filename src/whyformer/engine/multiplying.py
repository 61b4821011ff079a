"""Matrix products on the way back: in full, or in bfloat16 where that was asked for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

NARROW = torch.bfloat16
#: fewer rows than this are multiplied as torch does it
FEW_ROWS = 8


def multiply(a: Tensor, b: Tensor, fast: bool = False) -> Tensor:
    """a @ b. ``fast``: of bfloat16 numbers, summed in single precision.

    In single precision on a CPU a product with one matrix is oneDNN's, where torch has it: it takes
    a tenth less than what torch itself would choose.
    """
    if fast:
        return (a.to(NARROW) @ b.to(NARROW)).to(a.dtype)
    if b.ndim == 2 and a.numel() >= FEW_ROWS * a.shape[-1] and single(a) and single(b) and ONEDNN:
        found: Tensor = ONEDNN(a, b.mT, None, "none", [], "")
        return found
    return a @ b


def single(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu"


def onednn() -> Any:
    """x W^T by oneDNN, or None: torch's own compiler calls it, but promises it to nobody."""
    if not torch.backends.mkldnn.is_available():
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


ONEDNN = onednn()
