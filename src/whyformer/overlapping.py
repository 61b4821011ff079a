"""Work beside the model's: what comes next is read by threads, and what is done is written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: threads that read while the model works, and how many inputs they, and the writer, are apart
#: from it: twice as many as go through it together
READERS, AHEAD = 2, 16


def read_ahead(
    waiting: Iterable[T], read: Callable[[T], R]
) -> Generator[tuple[T, Future[R]], None, None]:
    """Everything in order, read while the caller works on what came before."""
    return in_order(waiting, read, _threads(READERS), AHEAD)


def in_order(
    waiting: Iterable[T], call: Callable[[T], R], pool: Executor, ahead: int
) -> Generator[tuple[T, Future[R]], None, None]:
    """Everything in its order; the ``pool``, which ends with it, works on what comes next."""
    with pool:
        begun: deque[tuple[T, Future[R]]] = deque()
        try:
            for each in waiting:
                begun.append((each, pool.submit(call, each)))
                if len(begun) > ahead:
                    yield begun.popleft()
            while begun:
                yield begun.popleft()
        finally:
            for _, future in begun:
                future.cancel()


def _threads(count: int) -> ThreadPoolExecutor:
    """Threads beside the model, with a core each."""
    return ThreadPoolExecutor(count, initializer=work_with, initargs=(1,))


class WriteBehind:
    """Calls, one after another, by a thread that is a few behind at most.

    What one of them raises is raised by a later ``add``, or at the end.
    """

    def __enter__(self) -> WriteBehind:
        self._pool = _threads(1)
        self._begun: deque[Future[Any]] = deque()
        return self

    def add(self, call: Callable[[], Any]) -> None:
        self._begun.append(self._pool.submit(call))
        if len(self._begun) > AHEAD:
            self._begun.popleft().result()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown()
        if kind is None:
            for future in self._begun:
                future.result()


def work_with(cores: int) -> None:
    """What torch does for this thread is done by so many cores.

    OpenMP makes a team for each thread that asks, and where there are more of them than cores, no
    team waits awake for its next step: an explanation's many small steps then take twice as long.
    """
    import torch
    from threadpoolctl import threadpool_limits

    torch.get_num_threads()  # torch sets a thread up when it is first asked, which would undo this
    threadpool_limits(cores, user_api="openmp")
