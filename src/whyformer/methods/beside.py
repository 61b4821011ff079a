"""Targets that are asked about in one call, and go down the model together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.methods.maps import Backward, MapReading

#: bytes that one map may take for all targets that go together
MOST_BYTES = 64 * 2**20

Layers = list["Tensor | None"]


class Beside:
    """Questions that differ in their target alone, asked one after the other by one method.

    The first to ask for layers has them made for the others too, who find them when they ask.
    Only layers wait, which are averaged over the heads; maps are forgotten block by block.
    """

    def __init__(self, questions: Sequence[MapReading]) -> None:
        self._questions = list(questions)
        self._waiting: dict[MapReading, list[tuple[Any, Layers]]] = {q: [] for q in questions}
        for question in questions:
            question._beside = self

    def layers(
        self,
        asking: MapReading,
        make: Callable[[int, list[Tensor]], Tensor],
        backwards: Sequence[Backward],
        blocks: set[int],
    ) -> Layers:
        """The layers of one question: those that wait for it, or new ones."""
        wanted = ([(backward.table, backward.signed) for backward in backwards], blocks)
        waiting = self._waiting[asking]
        if waiting and waiting[0][0] == wanted:
            return waiting.pop(0)[1]
        together = self._together(asking)
        made = descend_together(together, make, backwards, blocks)
        for question, layers in zip(together[1:], made[1:], strict=True):
            self._waiting[question].append((wanted, layers))
        return made[0]

    def _together(self, asking: MapReading) -> list[MapReading]:
        """The question and those after it, as many as have room."""
        largest = max(a.numel() * a.element_size() for a in asking.attention)
        first = self._questions.index(asking)
        return self._questions[first : first + max(1, MOST_BYTES // largest)]


def descend_together(
    questions: Sequence[MapReading],
    make: Callable[[int, list[Tensor]], Tensor],
    backwards: Sequence[Backward],
    blocks: set[int],
) -> list[Layers]:
    """The layers of each question."""
    from whyformer.engine.descent import descend

    trace = questions[0].trace
    of = [attention.weights for attention in trace.seen.attention]
    passes = [(b.table, [q.alike(b).start for q in questions]) for b in backwards]
    layers: list[Layers] = [[None] * len(of) for _ in questions]
    left = set(blocks)
    for number, slots in descend(trace, passes, of):
        if number in left:
            for each, question, *own in zip(layers, questions, *slots, strict=True):
                each[number] = make(number, [question._map_of(of[number], slot) for slot in own])
            left.remove(number)
        del slots
        if not left:
            break
    return layers
