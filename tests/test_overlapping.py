"""What is read ahead and written behind: in order, not too far, and no error is lost."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from whyformer.errors import InputError, OutputError
from whyformer.overlapping import AHEAD, WriteBehind, read_ahead


class TestReadingAhead:
    def test_samples_are_read_while_the_model_works(self) -> None:
        read: list[int] = []
        ready = read_ahead(range(20), lambda i: read.append(i) or i)
        first, future = next(ready)
        assert first == 0
        assert future.result() == 0
        deadline = time.monotonic() + 10
        while len(read) < AHEAD and time.monotonic() < deadline:
            time.sleep(0.01)
        assert AHEAD <= len(read) <= AHEAD + 1
        assert [i for i, _ in ready] == list(range(1, 20))

    def test_order_and_errors_stay_with_their_sample(self) -> None:
        def read(i: int) -> int:
            if i == 1:
                raise InputError("broken")
            return i

        futures = [future for _, future in read_ahead(range(3), read)]
        assert [futures[0].result(), futures[2].result()] == [0, 2]
        with pytest.raises(InputError, match="broken"):
            futures[1].result()


def test_threads_beside_the_model_do_not_ask_for_its_cores() -> None:
    """A team of OpenMP's for each of them would keep the model's own from waiting awake."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = [f.result() for _, f in read_ahead(range(3), lambda _: torch.get_num_threads())]
        with WriteBehind() as writer:
            writer.add(lambda: found.append(torch.get_num_threads()))
        assert found == [1, 1, 1, 1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class TestWritingBehind:
    def test_in_order_and_all_before_the_end(self) -> None:
        written: list[int] = []
        with WriteBehind() as behind:
            for i in range(20):
                behind.add(lambda i=i: written.append(i))
        assert written == list(range(20))

    def test_the_caller_is_a_few_ahead_at_most(self) -> None:
        gate = threading.Event()
        added: list[int] = []

        def add_all() -> None:
            with WriteBehind() as behind:
                for i in range(AHEAD + 5):
                    behind.add(gate.wait)
                    added.append(i)

        caller = threading.Thread(target=add_all)
        caller.start()
        time.sleep(0.3)
        assert len(added) == AHEAD
        gate.set()
        caller.join(10)
        assert len(added) == AHEAD + 5

    def test_an_error_is_raised_at_the_end_at_the_latest(self) -> None:
        def fail() -> None:
            raise OutputError("the disk is full")

        with pytest.raises(OutputError, match="the disk is full"), WriteBehind() as behind:
            behind.add(fail)

    def test_what_was_begun_is_written_when_the_caller_fails(self) -> None:
        written: list[int] = []

        def interrupted() -> None:
            with WriteBehind() as behind:
                behind.add(lambda: (time.sleep(0.1), written.append(1)))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert written == [1]
