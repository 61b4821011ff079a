"""Several backwards that go down a model together, one block after the other.

Where a block's stream is all that lies between the output and what is below, the backwards stop
there, and are started from there again: what they found above can be forgotten.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from whyformer.engine.graph import age
from whyformer.engine.rules import Table
from whyformer.engine.trace import Start, Trace


@dataclass
class Descending:
    """A table on its way down, and the slots that it starts from again, for each target."""

    table: Table
    starts: Sequence[Start]

    def step(
        self, trace: Trace, of: Sequence[Tensor], below: Tensor | None, keep: bool
    ) -> list[list[Tensor | None]]:
        """What arrives at some values, for each target; the next step starts from below them."""
        if not any(self.starts):
            return [[None] * len(of) for _ in self.starts]
        both = [*of] if below is None else [*of, below]
        found = trace.backwards(self.table, self.starts, both, keep)
        slots = [None if below is None else each.pop() for each in found]
        self.starts = [[] if below is None or slot is None else [(below, slot)] for slot in slots]
        return found


def descend(
    trace: Trace,
    passes: Sequence[tuple[Table, Sequence[Start]]],
    of: Sequence[Tensor],
    keep: bool = False,
) -> Iterator[tuple[int, list[list[Tensor | None]]]]:
    """The number of each value and what every pass puts into its slot, output side first.

    A pass has a start for each target, and its slots are listed by target. Values between two
    stops are found at once.
    """
    stops = stops_below(trace, [value for _, starts in passes for value, _ in starts[0]])
    going = [Descending(table, starts) for table, starts in passes]
    ages = [age(value.grad_fn) for value in of]
    numbers = sorted(range(len(of)), key=ages.__getitem__)
    while numbers:
        lowest, highest = ages[numbers[0]], ages[numbers[-1]]
        between = [stop for stop in stops if lowest < age(stop.grad_fn) < highest]
        below = max(between, key=lambda stop: age(stop.grad_fn), default=None)
        group = [n for n in numbers if below is None or ages[n] > age(below.grad_fn)]
        del numbers[-len(group) :]
        with trace.current.weights_near() if len(going) > 1 else nullcontext():
            found = [one.step(trace, [of[n] for n in group], below, keep) for one in going]
        while group:
            yield group.pop(), [[slots.pop() for slots in targets] for targets in found]


def stops_below(trace: Trace, values: Sequence[Tensor]) -> list[Tensor]:
    """The blocks' streams that every way from some values down to the inputs leads through."""
    heap: list[tuple[int, int, Any]] = []
    reached: dict[Any, set[int]] = {}
    narrow = set()

    def reach(node: Any, output: int) -> None:
        if node is not None and node not in reached:
            heapq.heappush(heap, (-age(node), len(reached), node))
        reached.setdefault(node, set()).add(output)

    for value in values:
        reach(value.grad_fn, value.output_nr)
    while heap:
        _, _, node = heapq.heappop(heap)
        if not heap:
            narrow.add(node)
        for parent, output in node.next_functions:
            reach(parent, output)
    return [
        block.entry
        for block in trace.seen.blocks
        if block.entry.grad_fn in narrow and reached[block.entry.grad_fn] == {block.entry.output_nr}
    ]
