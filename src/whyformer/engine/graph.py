"""Questions to autograd's graph: where a value comes from, which axis is the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from whyformer.engine.operations import Operation


def origin(tensor: Tensor) -> Operation | None:
    """The operation that made a tensor's values, seen through moves and scalings."""
    node: Any = tensor.grad_fn
    while node is not None:
        operation: Operation | None = getattr(node, "operation", None)
        if operation is not None and not operation.transparent:
            return operation
        if not node.next_functions:
            return None
        node = node.next_functions[0][0]
    return None


def nodes(tensor: Tensor) -> Iterator[Any]:
    """Every node below a tensor, once."""
    stack, visited = [tensor.grad_fn], set()
    while stack:
        node: Any = stack.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        yield node
        stack.extend(parent for parent, _ in node.next_functions)


def kind(node: Any) -> str:
    """A node's name without autograd's suffix: ``ViewBackward0`` is ``View``."""
    name: str = type(node).__name__
    return name.rstrip("0123456789").removesuffix("Backward") or name


def batch_axis(tensor: Tensor, batch: int) -> int | None:
    """The axis that counts samples, or the rows of all samples in a folded tensor.

    0, or 1 in sequence-first models; None when there is no such axis. Where both have the
    batch's size, the transposes above the tensor decide.
    """
    axes = (0, 1) if tensor.ndim > 2 else (0,)
    candidates = [axis for axis in axes if axis < tensor.ndim and tensor.shape[axis] == batch]
    if len(candidates) == 2 and batch > 1:
        axis = _follow(tensor)
        return axis if axis in candidates else 0
    if candidates:
        return candidates[0]
    return 0 if tensor.ndim and tensor.shape[0] % batch == 0 else None


def _follow(tensor: Tensor) -> int:
    """Axis 0 of the model's input, carried through every transpose down to the tensor."""
    path = []
    node: Any = tensor.grad_fn
    while node is not None:
        path.append(node)
        node = node.next_functions[0][0] if node.next_functions else None
    axis = 0
    for node in reversed(path):
        name = kind(node)
        if name == "Transpose":
            dims = [_signed(node._saved_dim0), _signed(node._saved_dim1)]
            if min(dims) < 0:
                rank = 1 + max(axis, 2)
                dims = [d % rank if d < 0 else d for d in dims]
            if axis in dims:
                axis = dims[1 - dims.index(axis)]
        elif name == "T":
            axis = 1 - axis
        elif name == "Permute":
            dims = [_signed(d) for d in node._saved_dims]
            axis = [d % len(dims) for d in dims].index(axis) if axis < len(dims) else axis
    return axis


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
