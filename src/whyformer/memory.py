"""What a recording keeps, counted in bytes: its graph, and the maps of questions it was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from whyformer.engine import Start, Trace
from whyformer.engine.operations import Saved
from whyformer.methods.maps import Memory

#: bytes of maps that a recording keeps beside its own graph
MOST_BYTES = 512 * 2**20


class BoundedMemory:
    """Maps by target; the targets that were asked longest ago are forgotten first."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self._maps: dict[Any, Memory] = {}

    def of(self, start: Start) -> Memory:
        """What is remembered of a target; it is filled by whoever asks."""
        key = tuple((id(value), *fingerprint(seed)) for value, seed in start)
        kept = self._maps.pop(key, {})
        while self._maps and self.bytes() > self.most:
            self._maps.pop(next(iter(self._maps)))
        self._maps[key] = kept
        return kept

    def bytes(self) -> int:
        return sum(
            tensor.numel() * tensor.element_size()
            for maps in self._maps.values()
            for _, tensors in maps.values()
            for tensor in tensors
        )


def graph_bytes(trace: Trace, besides: Iterable[Tensor]) -> int:
    """What the operations of a forward saved, shared memory once; ``besides`` are the weights."""
    sizes = {}
    for operation in trace.operations:
        for tensor in _tensors(vars(operation)):
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
    for tensor in besides:
        sizes.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(sizes.values())


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Saved):
        yield value.get(remake=lambda: torch.empty(0))
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)


def fingerprint(seed: Tensor) -> tuple[Any, ...]:
    """The places and values of the few numbers that are not zero."""
    places = torch.nonzero(seed)
    return (tuple(places.flatten().tolist()), tuple(seed[seed != 0].tolist()))
