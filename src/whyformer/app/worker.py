"""One thread for the models, and a bounded number of places before it.

A request takes a place when its body is whole and keeps it until the thread has done with it. One
that waits is dropped when its client leaves; one that runs stops at its next ``check``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from whyformer.app.refusals import RefusalError

#: bodies that may be read at once, for each place: who sends slowly must not keep others waiting
ARRIVING = 10

T = TypeVar("T")
Check = Callable[[], None]


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


class Job(Generic[T]):
    """A piece of work that can be called off; it lets go of its input when it is."""

    def __init__(self, work: Callable[[Check], T]) -> None:
        self._work: Callable[[Check], T] | None = work
        self._off = threading.Event()

    def __call__(self) -> T:
        work, self._work = self._work, None
        if work is None:
            raise AbandonedError
        return work(self.check)

    def call_off(self) -> None:
        self._off.set()
        self._work = None

    def check(self) -> None:
        if self._off.is_set():
            raise AbandonedError


class Worker:
    """Runs one job at a time; ``places`` requests at most are waiting or running."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = self.arriving = 0
        self._thread = ThreadPoolExecutor(1, "whyformer-models")

    @contextmanager
    def arrival(self) -> Iterator[None]:
        """While a body is read; one that would find no place is not."""
        refuse_beyond(self.places, self.taken)
        refuse_beyond(self.places * ARRIVING, self.arriving)
        self.arriving += 1
        try:
            yield
        finally:
            self.arriving -= 1

    @contextmanager
    def place(self) -> Iterator[None]:
        refuse_beyond(self.places, self.taken)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, work: Callable[[Check], T], gone: Coroutine[Any, Any, None]) -> T:
        """The work's result; ``gone`` ends when the client has left."""
        job = Job(work)
        submitted = self._thread.submit(job)
        answer = asyncio.wrap_future(submitted)
        answer.add_done_callback(heard)
        leaving = asyncio.create_task(gone)
        either: list[asyncio.Future[Any]] = [answer, leaving]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise AbandonedError
        finally:
            leaving.cancel()
            job.call_off()
            if not submitted.done() and not submitted.cancel():
                await asyncio.wait({answer})

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def refuse_beyond(most: int, requests: int) -> None:
    if requests >= most:
        raise RefusalError(
            503, f"{requests} requests are being answered; try again in a second", wait=1
        )


def heard(answer: asyncio.Future[Any]) -> None:
    """Nobody may wait for an answer: asyncio would report its error as one that was overlooked."""
    if not answer.cancelled():
        answer.exception()
