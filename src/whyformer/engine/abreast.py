"""Backwards of several targets that go down the graph side by side, node by node.

Autograd's own engine carries one slot a value. Here each value has one for every target: what an
operation computes for all of them, such as denominators, is made once and forgotten at once, and
its weights are read while they are at hand. What one target gets is what it would get alone.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from whyformer.engine.graph import age, nodes, operation_of
from whyformer.engine.operations import Operation, Slots
from whyformer.engine.rules import Table
from whyformer.engine.rules.mass import added

#: a value's slots, one a target
Abreast = list[Tensor | None]
#: an output of a node: the node, and the output's number
Place = tuple[Any, int]


def place_of(value: Tensor) -> Place:
    edge = get_gradient_edge(value)
    return edge.node, edge.output_nr


def go_down(
    table: Table, starts: Sequence[tuple[Tensor, Abreast]], of: Sequence[Tensor]
) -> list[Abreast]:
    """What a table puts into the slots of some values, for each target."""
    count = len(starts[0][1])
    ends = [place_of(value) for value in of]
    found: dict[Place, Abreast] = {end: [None] * count for end in ends}
    leading = leading_to({node for node, _ in ends}, [value for value, _ in starts])
    arrived: dict[Any, dict[int, Abreast]] = {}
    waiting: list[tuple[int, int, Any]] = []
    order = itertools.count()

    def arrive(place: Place, slots: Abreast) -> None:
        node, number = place
        if node not in leading or all(slot is None for slot in slots):
            return
        if node not in arrived:
            heapq.heappush(waiting, (-age(node), next(order), node))
        outputs = arrived.setdefault(node, {})
        before = outputs.get(number, [None] * count)
        outputs[number] = [added(a, b) for a, b in zip(before, slots, strict=True)]

    for value, slots in starts:
        arrive(place_of(value), slots)
    while waiting:
        _, _, node = heapq.heappop(waiting)
        outputs = arrived.pop(node)
        for number, slots in outputs.items():
            if (node, number) in found:
                found[node, number] = slots
        parents = node.next_functions
        if not any(parent in leading for parent, _ in parents):
            continue
        every = [outputs.get(i, [None] * count) for i in range(len(node._input_metadata))]
        below = passed(node, table, list(zip(*every, strict=True)))
        for (parent, number), *slots in zip(parents, *below, strict=True):
            if parent is not None:
                arrive((parent, number), [fitting(slot, parent, number) for slot in slots])
    return [found[end] for end in ends]


def leading_to(ends: set[Any], values: Sequence[Tensor]) -> set[Any]:
    """The nodes below some values that lead to the ends, these included."""
    seen = set(nodes(values))
    leading = seen & ends
    for node in sorted(seen, key=age):
        if any(parent in leading for parent, _ in node.next_functions):
            leading.add(node)
    return leading


def passed(node: Any, table: Table, targets: Sequence[Slots]) -> list[Slots]:
    """What each target's slots of a node's outputs become below it."""
    operation: Operation | None = operation_of(node)
    if operation is not None:
        return operation.back_abreast(table.rule(operation), targets)
    found = [node(*slots) for slots in targets]
    return [each if isinstance(each, tuple) else (each,) for each in found]


def fitting(slot: Tensor | None, node: Any, number: int) -> Tensor | None:
    """A slot in the shape and type of its value: where that was broadcast, slots are summed."""
    if slot is None:
        return None
    value = node._input_metadata[number]
    if slot.shape != value.shape:
        slot = slot.sum_to_size(value.shape)
    return slot.to(value.dtype)
