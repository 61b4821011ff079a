"""Memory in bytes: what a recording keeps, its graph and maps, and how many inputs go together."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whyformer.engine import Start, Trace
from whyformer.engine.operations import Saved
from whyformer.forked import can_fork
from whyformer.methods.maps import Memory

#: bytes of maps that a recording keeps beside its own graph
MOST_BYTES = 512 * 2**20
#: inputs that go through a model together at most: on a CPU more of them gain nothing
TOGETHER, TOGETHER_ON_DEVICE = 8, 32
#: bytes of graphs that go together on a CPU at most: larger models gain nothing by more, and such a
#: group is a step of the bar, and what Ctrl-C waits for
GROUP_BYTES = 320 * 2**20
#: of the free memory, inputs together may take a quarter, and a way back about twice their graph
SHARE, WAY_BACK = 4, 2
#: what a forked process writes anew of what it was forked with, and makes for itself
FORK_BYTES = 128 * 2**20
#: where the system tells of groups of processes that share a limit
GROUPS, MY_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


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


@dataclass(frozen=True)
class Crew:
    """How many inputs go through a model together, and the processes that take so many each."""

    together: int
    processes: int = 1


def crew_for(
    bytes_of_one: int, device: torch.device, waiting: int | None = None, abreast: bool = True
) -> Crew:
    """As many inputs at a time as the free memory holds, by the graph of one.

    On a CPU by a process for each core, where they may work ``abreast`` and have room: all cores as
    one team stop at each of many small steps until the last of them has come, and threads that
    explain beside one another wait for each other's memory. Where the memory holds processes for
    less than half of the cores, all cores are one team. ``waiting``: how many inputs there are.
    """
    on_cpu, size = device.type == "cpu", max(1, bytes_of_one)
    most = min(TOGETHER, GROUP_BYTES // size) if on_cpu else TOGETHER_ON_DEVICE
    free = free_bytes(device)
    cores = torch.get_num_threads()
    wanted = cores if waiting is None else max(1, min(cores, waiting))
    takes, processes, room = SHARE * WAY_BACK * size, 1, TOGETHER
    if on_cpu and abreast and can_fork():
        fitting = wanted if free is None else min(wanted, free // (takes + FORK_BYTES))
        processes = fitting if 2 * fitting >= wanted else 1
    if free is not None:
        room = (free // processes - (FORK_BYTES if processes > 1 else 0)) // takes
    share = most if waiting is None else -(-waiting // processes)
    return Crew(max(1, min(most, room, share)), processes)


def in_parts(call: Callable[[Tensor], Tensor], inputs: Tensor, device: torch.device) -> Tensor:
    """What ``call`` gives for the rows of ``inputs``, some at a time; halves where memory lacks."""
    waiting = deque(inputs.split(TOGETHER if device.type == "cpu" else TOGETHER_ON_DEVICE))
    found = []
    while waiting:
        part = waiting.popleft()
        try:
            found.append(call(part))
        except torch.OutOfMemoryError:
            if len(part) == 1:
                raise
            size = len(part) // 2
            rest = torch.cat([part, *waiting])
            waiting = deque(rest.split(size))
    return torch.cat(found)


def free_bytes(device: torch.device) -> int | None:
    """Of a device, or of this machine for each process that shares it; None if it is not told."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        told = _numbers(Path("/proc/meminfo"))
        free = min([told["MemAvailable:"] * 1024, *_left_to_groups()])
    except (OSError, KeyError, ValueError):
        return None
    return free // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _left_to_groups() -> Iterator[int]:
    """What this process's control groups, of version 2, may still take: a container has limits."""
    try:
        lines = MY_GROUPS.read_text().splitlines()
    except OSError:
        return
    for path in (line[3:].strip("/") for line in lines if line.startswith("0::")):
        for group in (GROUPS / path, *(GROUPS / path).parents):
            try:
                most = int((group / "memory.max").read_text())
                used = int((group / "memory.current").read_text())
                cached = _numbers(group / "memory.stat")["inactive_file"]
            except (OSError, ValueError, KeyError):  # it has no limit, or does not tell
                continue
            yield max(0, most - used + cached)


def _numbers(path: Path) -> dict[str, int]:
    """The first number that stands behind each name."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {name: int(number) for name, number, *_ in lines}


def fingerprint(seed: Tensor) -> tuple[Any, ...]:
    """The places and values of the few numbers that are not zero."""
    places = torch.nonzero(seed)
    return (tuple(places.flatten().tolist()), tuple(seed[seed != 0].tolist()))
