"""Questions to autograd's graph: where a value comes from, and what two values have in common."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from whyformer.engine.local import Autograd, ByStatistic, Pointwise, SelfGate
from whyformer.engine.matrices import Product
from whyformer.engine.mixing import Bias, Binary, Sum
from whyformer.engine.names import MOVING_NODES, STATISTICS
from whyformer.engine.operations import Operation
from whyformer.engine.reductions import Reduction

#: a spelled-out norm or activation has no more steps than this
LONGEST_SPELLING = 40
#: autograd's nodes that choose one value of many: a softmax that is kept small subtracts it
EXTREMES = ("Max", "Amax")
#: kinds of operations that leave attention what it is
CHANGES = frozenset("learned sum scale reduction normalisation activation".split())
#: the mark of a node that made both of two values
BOTH = 3


def operation_of(node: Any) -> Operation | None:
    return getattr(node, "operation", None)


def parents(node: Any) -> list[Any]:
    return [parent for parent, _ in node.next_functions if parent is not None]


def origin(tensor: Tensor) -> Operation | None:
    """The operation that made a tensor's values, seen through moves and scalings."""
    node: Any = tensor.grad_fn
    while node is not None:
        operation = operation_of(node)
        if operation is not None and not operation.transparent:
            return operation
        above = parents(node)
        node = above[0] if above else None
    return None


def scores_below(tensor: Tensor) -> list[Binary]:
    """The products that a value is a sum of, and the sums, seen through moves and activations.

    Products with constants may have a part in it; where anything else has, the list is empty.
    """
    found: list[Binary] = []
    pending = [tensor.grad_fn]
    while pending:
        node: Any = pending.pop()
        operation = operation_of(node)
        if isinstance(operation, Product) and not operation.attends:
            found.append(operation)
        elif operation is not None and operation.kind == "learned":
            continue
        elif moves(node) or isinstance(operation, Pointwise | Sum):
            if isinstance(operation, Sum):
                found.append(operation)
            above = parents(node)
            if not above:
                return []
            pending.extend(above)
        else:
            return []
    return found


def nodes(tensors: Iterable[Tensor]) -> Iterator[Any]:
    """Every node below some tensors, once."""
    pending, visited = [tensor.grad_fn for tensor in tensors], set()
    while pending:
        node: Any = pending.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        yield node
        pending.extend(parents(node))


def kind(node: Any) -> str:
    """A node's name without autograd's suffix: ``ViewBackward0`` is ``View``."""
    name: str = type(node).__name__
    return name.rstrip("0123456789").removesuffix("Backward") or name


def moves(node: Any) -> bool:
    """Whether a node hands its values on, moved or scaled."""
    operation = operation_of(node)
    return kind(node) in MOVING_NODES if operation is None else operation.transparent


def age(node: Any) -> int:
    """Newer nodes have higher numbers; leaves are the oldest."""
    return -1 if hasattr(node, "variable") else int(node._sequence_nr())


# -- two values


@dataclass
class Side:
    """What made one of two values and not the other; an input of its own is no move."""

    only_moves: bool = True
    attention: bool = False
    #: whether something else in it may mix tokens: a convolution, a scan, a transposed Linear
    may_mix: bool = False

    def add(self, node: Any) -> None:
        self.only_moves = self.only_moves and moves(node) and not hasattr(node, "variable")
        operation = operation_of(node)
        if operation is None:
            self.may_mix = self.may_mix or kind(node) in ("Transpose", "Permute", "Roll")
        elif operation.attends and operation.kind == "product":
            self.attention = True
        elif operation.kind in ("product", "generic") or operation.name == "learned":
            self.may_mix = True


def compare(u: Tensor, v: Tensor) -> tuple[Side, Side]:
    """Walk back from two values, newest first, until only what made both is left."""
    sides = (Side(), Side())
    marks: dict[Any, int] = {}
    heap: list[tuple[int, int, Any]] = []
    alone = 0

    def reach(node: Any, mark: int) -> None:
        nonlocal alone
        known = marks.get(node, 0)
        if not known:
            heapq.heappush(heap, (-age(node), len(marks), node))
        marks[node] = known | mark
        alone += (marks[node] != BOTH) - (known not in (0, BOTH))

    reach(u.grad_fn, 1)
    reach(v.grad_fn, 2)
    while alone:
        _, _, node = heapq.heappop(heap)
        mark = marks[node]
        if mark != BOTH:
            alone -= 1
            sides[mark - 1].add(node)
        for parent in parents(node):
            reach(parent, mark)
    return sides


# -- attention that is changed before it weighs values


def made_of_softmax(tensor: Tensor) -> bool:
    """Whether a value was made of softmaxes alone: mixed over heads, subtracted, divided."""
    pending, visited, found = [tensor.grad_fn], set(), False
    while pending:
        node = pending.pop()
        if node in visited:
            continue
        visited.add(node)
        operation, above = operation_of(node), parents(node)
        if operation is not None and operation.name in ("softmax", "log_softmax"):
            found = True
            continue
        changes = operation is not None and operation.kind in CHANGES
        if len(visited) > LONGEST_SPELLING or not above or not (changes or moves(node)):
            return False
        pending.extend(above)
    return found


# -- norms and activations that are spelled out


def derived(value: Tensor, source: Tensor) -> str | None:
    """How a value was computed from another alone: "pointwise", as a "statistic", or not so."""
    goal = set(same_value(source))
    pending, visited, reduced = [value.grad_fn], set(), False
    while pending:
        node = pending.pop()
        if node in goal or node in visited:
            continue
        visited.add(node)
        above = parents(node)
        if len(visited) > LONGEST_SPELLING or not above:
            return None
        operation = operation_of(node)
        if isinstance(operation, Reduction) or getattr(operation, "name", "") in STATISTICS:
            reduced = True
        elif operation is None:
            if kind(node) not in MOVING_NODES:
                return None
            reduced = reduced or kind(node) in EXTREMES
        elif not isinstance(operation, Sum | Bias | Autograd) or operation.kind == "generic":
            return None
        pending.extend(above)
    return "statistic" if reduced else "pointwise"


def same_value(tensor: Tensor) -> Iterator[Any]:
    """A value's node, and those of which it is a cast, a move, a scale or a shift by its mean."""
    node = tensor.grad_fn
    while node is not None:
        yield node
        operation, above = operation_of(node), parents(node)
        if isinstance(operation, ByStatistic):
            node = above[operation.subject] if len(above) == 2 else None
        elif moves(node) and len(above) == 1:
            node = above[0]
        else:
            return


def made_by_activation(tensor: Tensor) -> bool:
    return isinstance(origin(tensor), Pointwise | SelfGate)
