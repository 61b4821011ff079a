"""Processes forked from this one: in order, a core each, and gone with their parent."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from whyformer.errors import InputError, OutputError
from whyformer.forked import can_fork, in_forks

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system does not fork")

#: a parent whose two processes leave their numbers, and then work for long
FAMILY = """
import os, time
from whyformer.forked import in_forks

def call(_):
    open(os.path.join(os.environ["THERE"], str(os.getpid())), "w").close()
    time.sleep(600)

for _, future in in_forks(range(2), call, 2, lambda number: None):
    future.result()
"""


def answers(call: Callable[[int], Any], count: int, begin: Callable[[int], None]) -> list[Any]:
    with closing(in_forks(range(count), call, 2, begin)) as begun:
        return [(i, future.result()) for i, future in begun]


def nothing(number: int) -> None:
    pass


def test_in_order_with_all_that_this_process_holds() -> None:
    """What is called need not be sent: a lock could not be."""
    lock, base = threading.Lock(), 100

    def call(i: int) -> tuple[int, int]:
        time.sleep(0.05 * (i % 3 == 0))
        with lock:
            return base + i, os.getpid()

    found = answers(call, 12, nothing)
    assert [i for i, _ in found] == list(range(12))
    assert [value for _, (value, _) in found] == list(range(100, 112))
    assert os.getpid() not in {process for _, (_, process) in found}


def test_each_has_a_number_and_one_core() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    mine: list[int] = []

    def call(i: int) -> tuple[list[int], int, float]:
        time.sleep(0.05)
        product = torch.randn(300, 300) @ torch.randn(300, 300)
        return mine, torch.get_num_threads(), float(product.sum())

    try:
        torch.randn(500, 500) @ torch.randn(500, 500)  # a team of this process, which no fork has
        found = [answer for _, answer in answers(call, 12, mine.append)]
        assert {tuple(numbers) for numbers, _, _ in found} == {(1,), (2,)}
        assert {threads for _, threads, _ in found} == {1}
        assert torch.get_num_threads() == 2
        assert mine == []
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("error", [InputError("a bad photo"), OutputError("the disk is full")])
def test_an_error_comes_back(error: Exception) -> None:
    def call(i: int) -> int:
        if i == 1:
            raise error
        return i

    with closing(in_forks(range(3), call, 2, nothing)) as begun:
        futures = [future for _, future in begun]
    assert [futures[0].result(), futures[2].result()] == [0, 2]
    with pytest.raises(type(error), match=str(error)):
        futures[1].result()


def test_a_killed_process_is_told() -> None:
    with pytest.raises(BrokenProcessPool):
        answers(lambda i: os.kill(os.getpid(), signal.SIGKILL), 4, nothing)


def test_what_was_sent_is_not_begun_once_nobody_wants_it(tmp_path: Path) -> None:
    """A pool has more than it works on where its processes find it, beyond recall."""

    def call(i: int) -> None:
        (tmp_path / str(i)).touch()
        time.sleep(3 * (i > 0))

    begun = in_forks(range(50), call, 2, nothing)
    next(begun)[1].result()
    begun.close()
    assert len(list(tmp_path.iterdir())) <= 4


def test_a_system_without_room_for_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What had begun is gone."""
    usual, before = os.fork, psutil.Process().children()
    begun: list[int] = []

    def fork() -> int:
        if begun:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        begun.append(usual())
        return begun[-1]

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(BlockingIOError):
        in_forks(range(4), str, 2, nothing)
    left = [process for process in psutil.Process().children() if process not in before]
    assert len(begun) == 1
    assert psutil.wait_procs(left, timeout=30)[1] == []


def test_a_process_that_cannot_begin() -> None:
    def begin(number: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(BrokenProcessPool):
        in_forks(range(4), str, 2, begin)


@pytest.fixture
def heeding() -> Iterator[None]:
    """Ctrl-C is heard, as it is unless somebody ignores it for a process: pytest's own workers."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.usefixtures("heeding")
def test_an_interruption_waits_until_one_has_begun(capfd: pytest.CaptureFixture[str]) -> None:
    """As a terminal sends it, to parent and children; none of them says a word."""
    before = set(psutil.Process().children())
    pressed = mmap.mmap(-1, 1)

    def begin(number: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        if number == 1:
            os.kill(os.getppid(), signal.SIGINT)
            pressed[0] = True
        while not pressed[0]:
            time.sleep(0.01)

    usual = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        in_forks(range(4), str, 2, begin)
    assert signal.getsignal(signal.SIGINT) is usual
    begun = [process for process in psutil.Process().children() if process not in before]
    _, alive = psutil.wait_procs(begun, timeout=30)
    assert alive == []
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("heeding")
def test_a_second_interruption_does_not_wait() -> None:
    def begin(number: int) -> None:
        if number == 1:
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(0.5)
            os.kill(os.getppid(), signal.SIGINT)
        time.sleep(600)

    with pytest.raises(KeyboardInterrupt):
        in_forks(range(4), str, 2, begin)


@pytest.mark.usefixtures("heeding")
def test_who_ignores_interruptions_goes_on_doing_so() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def begin(number: int) -> None:
        for _ in range(2):
            os.kill(os.getppid(), signal.SIGINT)

    assert answers(abs, 4, begin) == [(i, i) for i in range(4)]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_from_another_thread() -> None:
    """Which may not handle signals."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(answers(abs, 4, nothing)))
    thread.start()
    thread.join()
    assert found == [(i, i) for i in range(4)]


def test_none_outlives_its_parent(tmp_path: Path) -> None:
    inside = {**os.environ, "THERE": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", FAMILY], env=inside)
    try:
        until = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        family = psutil.Process(parent.pid).children()
        assert {str(each.pid) for each in family} == {path.name for path in tmp_path.iterdir()}
    finally:
        parent.kill()
        parent.wait()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
