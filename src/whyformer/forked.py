"""Work by processes forked from this one: they have what it has loaded, and a core each."""

from __future__ import annotations

import ctypes
import gc
import mmap
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from whyformer.overlapping import in_order

T = TypeVar("T")
R = TypeVar("R")

#: ``prctl``'s request for a signal when the parent ends
PARENT_DEATH_SIGNAL = 1

#: what this process was forked for, and whether its parent wants no more of it
_call: Callable[[Any], Any]
_over: mmap.mmap


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
    Raises OSError or RuntimeError where the system has no room for so many processes.
    """
    context = multiprocessing.get_context("fork")
    over, numbers = mmap.mmap(-1, 1), context.SimpleQueue()
    for number in range(1, count + 1):
        numbers.put(number)

    def set_up(parent: int) -> None:
        _live_with(parent)
        begin(numbers.get())

    pool = ProcessPoolExecutor(count, context, _begin, (call, over, set_up, os.getpid()))
    before = set(multiprocessing.active_children())
    with _undisturbed():
        try:
            pool.submit(os.getpid).result()
        except BaseException:
            for begun in set(multiprocessing.active_children()) - before:
                begun.kill()
            pool.shutdown(wait=False)
            raise
    return _until_over(in_order(waiting, _do, pool, ahead=2 * count), over)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until all are forked and one has begun; pressed again it waits no longer.

    Python warns of a fork where there are threads, and OpenMP's are such; they hold no lock between
    two products. What there is now no child looks through for garbage, which would copy it.
    """
    usual = signal.getsignal(signal.SIGINT)
    pressed: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        if len(pressed) > 1 and callable(usual):
            usual(number, frame)

    heeded = callable(usual) and threading.current_thread() is threading.main_thread()
    if heeded:
        signal.signal(signal.SIGINT, press)
    gc.freeze()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        gc.unfreeze()
        if heeded:
            signal.signal(signal.SIGINT, usual)
        if len(pressed) == 1:
            signal.raise_signal(signal.SIGINT)


def _until_over(
    begun: Generator[tuple[T, Future[R]], None, None], over: mmap.mmap
) -> Generator[tuple[T, Future[R]], None, None]:
    """What was sent and has not begun is not begun once the caller leaves.

    The processes are told before the pool, which ``begun`` closes, waits for them.
    """
    try:
        for each in begun:  # noqa: UP028
            yield each
    finally:
        over[0] = True
        begun.close()


def _begin(
    call: Callable[[Any], Any], over: mmap.mmap, set_up: Callable[[int], None], parent: int
) -> None:
    global _call, _over
    _call, _over = call, over
    set_up(parent)


def _do(each: Any) -> Any:
    return None if _over[0] else _call(each)


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
