"""Work by processes forked from this one: they have what it has loaded, and a core each."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

from whyformer.overlapping import in_order

T = TypeVar("T")
R = TypeVar("R")

#: ``prctl``'s request for a signal when the parent ends
PARENT_DEATH_SIGNAL = 1

#: what this process was forked for
_call: Callable[[Any], Any]


def can_fork() -> bool:
    """Elsewhere than on Linux, libraries do not outlive a fork, nor does a device's driver."""
    import torch

    return sys.platform == "linux" and not torch.accelerator.is_available()


def in_forks(
    waiting: Iterable[T], call: Callable[[T], R], count: int, begin: Callable[[int], None]
) -> Generator[tuple[T, Future[R]], None, None]:
    """Everything in its order, by ``count`` processes that begin now, each with its number from 1.

    ``call`` and ``begin`` may hold whatever this process holds; what is given to ``call`` and what
    it returns is sent. Begin before there are threads: a lock that one of them holds, no fork gets.
    """
    context = multiprocessing.get_context("fork")
    numbers = context.SimpleQueue()
    for number in range(1, count + 1):
        numbers.put(number)

    def set_up(parent: int) -> None:
        _live_with(parent)
        begin(numbers.get())

    pool = ProcessPoolExecutor(count, context, _begin, (call, set_up, os.getpid()))
    pool.submit(os.getpid).result()
    return in_order(waiting, _do, pool, ahead=2 * count)


def _begin(call: Callable[[Any], Any], set_up: Callable[[int], None], parent: int) -> None:
    global _call
    _call = call
    set_up(parent)


def _do(each: Any) -> Any:
    return _call(each)


def _live_with(parent: int) -> None:
    """Ctrl-C is the parent's matter; a process whose parent was killed ends as well.

    torch does all by one thread: OpenMP's others stayed with the parent.
    """
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    torch.set_num_threads(1)
