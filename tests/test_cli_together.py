"""Photos of a folder go through the model together, and each gets what it gets alone."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest
import torch
from PIL import Image

from command_line import Run, draw, results
from whyformer import memory
from whyformer.forked import can_fork
from whyformer.memory import FORK_BYTES, Crew, crew_for
from whyformer.models.images import ImagePipeline, Photo

CPU = torch.device("cpu")


needs_forks = pytest.mark.skipif(not can_fork(), reason="this system does not fork")


@pytest.fixture(params=[1, pytest.param(2, marks=needs_forks)], ids=["one process", "two forks"])
def cores(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many threads of torch's, and so many processes of ours."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


class TestTogether:
    """Photos that go through the model together, by one process or by two."""

    def test_each_gets_what_it_gets_alone(
        self,
        run: Run,
        photos: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        cores: int,
    ) -> None:
        """Also where a bad file lies between them, and where only one of them has a note."""
        draw(photos / "wide.png", 5)
        with Image.open(photos / "wide.png") as image:
            image.resize((200, 96)).save(photos / "wide.png")
        Image.new("RGBA", (96, 96), (200, 30, 30, 90)).save(photos / "bb.png")
        (photos / "ba.png").write_bytes(b"no image")
        asked = record_calls(monkeypatch, tmp_path / "calls")
        out = tmp_path / "maps"
        code, _, errors = run(
            "explain", photos, "-t", "3", "--out", out, "--format", "json", "--quiet"
        )
        sizes = [size for _, size in asked()]
        assert (code, sizes[0]) == (2, 1)
        assert sorted(sizes[1:]) == ([4] if cores == 1 else [2, 2])
        assert "ba.png is not an image" in errors
        assert len(results(out)) == 5
        for name in results(out):
            (source,) = photos.glob(f"{name.removesuffix('.json')}.*")
            alone = tmp_path / "alone.json"
            run("explain", source, "-t", "3", "--out", alone, "--quiet")
            many, one = json.loads((out / name).read_text()), json.loads(alone.read_text())
            scores = [found["views"][0].pop("scores") for found in (many, one)]
            top = max(map(abs, scores[1]))
            assert scores[0] == pytest.approx(scores[1], abs=1e-6 * top)
            assert many["notes"] == one["notes"]
            assert many["classes"][0]["label"] == one["classes"][0]["label"]
        said = [json.loads((out / name).read_text())["notes"] for name in results(out)]
        assert sum("partly transparent" in " ".join(notes) for notes in said) == 1

    def test_as_many_as_the_memory_holds(
        self, run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("whyformer.memory.free_bytes", lambda device: 2**20)
        asked = record_calls(monkeypatch, tmp_path / "calls")
        run("explain", photos, "--out", tmp_path / "maps", "--format", "json")
        assert [size for _, size in asked()] == [1, 1, 1]

    def test_by_processes_of_their_own(
        self,
        run: Run,
        photos: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        cores: int,
    ) -> None:
        """The first goes by the one that was started; each writes records of its own."""
        for i in range(21):
            draw(photos / f"z{i:02d}.png", i)
        asked = record_calls(monkeypatch, tmp_path / "calls", both=cores)
        out = tmp_path / "maps"
        code, told, _ = run("explain", photos, "--out", out, "--format", "json")
        assert code == 0
        assert "24 explained, 0 already there, 0 failed" in told
        (first, _), *others = asked()
        assert first == os.getpid()
        assert len({process for process, _ in others}) == cores
        assert (os.getpid() in dict(others)) == (cores == 1)
        shares = [
            [json.loads(line)["name"] for line in path.read_text().splitlines()]
            for path in sorted(out.glob(".whyformer-records-*.jsonl"))
        ]
        assert [len(names) for names in shares[:1]] == [24 if cores == 1 else 1]
        assert len(shares) == (1 if cores == 1 else 1 + cores)
        assert all(names == sorted(names) for names in shares)
        assert set(Counter(chain.from_iterable(shares)).values()) == {1}
        assert len(results(out)) == 24
        again = run("explain", photos, "--out", out, "--format", "json")
        assert "0 explained, 24 already there, 0 failed" in again[1]

    @needs_forks
    def test_what_remains_decides(
        self, run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A single photo that is left, or answers to a pipe, are no work for two processes."""
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
        for i in range(5):
            draw(photos / f"z{i}.png", i)
        arguments = ["explain", photos, "--out", tmp_path / "maps", "--format", "json"]
        run(*arguments)
        for name in ("z3.json", "z4.json"):
            (tmp_path / "maps" / name).unlink()
        asked = record_calls(monkeypatch, tmp_path / "calls")
        assert "2 explained, 6 already there" in run(*arguments)[1]
        assert asked() == [(os.getpid(), 1)] * 2
        asked = record_calls(monkeypatch, tmp_path / "more")
        assert len(run("explain", photos, "--json")[1].splitlines()) == 8
        assert asked() == [(os.getpid(), 1), (os.getpid(), 7)]

    def test_a_system_without_room_for_processes(
        self, run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object) -> None:
            raise BlockingIOError(11, "Resource temporarily unavailable")

        monkeypatch.setattr("whyformer.cli.steps.in_forks", full)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
        _, told, errors = run("explain", photos, "--out", tmp_path / "maps", "--format", "json")
        assert "3 explained, 0 already there, 0 failed" in told
        assert "whyformer:" not in errors

    def test_no_room_after_all(
        self, run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What does not fit is tried in halves, and so is what follows."""
        for i in range(6):
            draw(photos / f"z{i}.png", i)
        asked = record_calls(monkeypatch, tmp_path / "calls", room=2)
        run("explain", photos, "--out", tmp_path / "maps", "--format", "json")
        assert [size for _, size in asked()] == [1, 8, 4, 2, 2, 4, 2, 2]
        assert len(results(tmp_path / "maps")) == 9


class TestCrew:
    """How work is shared, by the memory, the cores and the inputs that wait."""

    def test_every_core_has_work(self, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("whyformer.memory.free_bytes", lambda device: 2**40)
        assert crew_for(2**20, CPU) == Crew(8, cores)
        assert crew_for(2**20, CPU, waiting=4) == Crew(4 // cores, cores)
        assert crew_for(2**20, CPU, waiting=1) == Crew(1, 1)

    @needs_forks
    def test_many_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("whyformer.memory.free_bytes", lambda device: 2**40)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
        assert crew_for(2**20, CPU) == Crew(8, 64)
        assert crew_for(2**20, CPU, waiting=100) == Crew(2, 64)
        assert crew_for(2**20, CPU, waiting=10) == Crew(1, 10)

    def test_little_memory_makes_it_smaller(
        self, cores: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A way back takes twice the graph, and all of it a quarter of what is free."""
        beside = FORK_BYTES if cores > 1 else 0
        monkeypatch.setattr(
            "whyformer.memory.free_bytes", lambda device: cores * (beside + 8 * 3 * 2**20)
        )
        assert crew_for(2**20, CPU) == Crew(3, cores)
        assert crew_for(3 * 2**20, CPU) == Crew(1, cores)
        assert crew_for(2**40, CPU) == Crew(1, 1)

    @needs_forks
    def test_room_for_some_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Half as many processes as there are cores still do more than all cores as one team."""
        monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
        free = 40 * (FORK_BYTES + 8 * 2**20)
        monkeypatch.setattr("whyformer.memory.free_bytes", lambda device: free)
        assert crew_for(2**20, CPU) == Crew(1, 40)
        assert crew_for(2 * 2**20, CPU) == Crew(1, 37)
        assert crew_for(100 * 2**20, CPU) == Crew(3, 1)

    @needs_forks
    def test_a_container_has_less_than_its_machine(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Limits of the group and of those around it; cached files are given back."""
        pod = tmp_path / "groups" / "pod" / "container"
        pod.mkdir(parents=True)
        own = tmp_path / "own"
        own.write_text("3:cpu:/somewhere\n0::/pod/container\n")
        monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
        monkeypatch.setattr(memory, "MY_GROUPS", tmp_path / "none")
        machine = memory.free_bytes(CPU)
        assert machine is not None
        monkeypatch.setattr(memory, "MY_GROUPS", own)
        assert memory.free_bytes(CPU) == pytest.approx(machine, rel=0.2)
        limit(pod, "max", 5000)
        assert memory.free_bytes(CPU) == pytest.approx(machine, rel=0.2)
        limit(pod.parent, "9000", 5000)
        assert memory.free_bytes(CPU) == 4000 + 300
        limit(pod, "6000", 5000)
        assert memory.free_bytes(CPU) == 1000 + 300
        limit(pod, "4000", 5000)
        assert memory.free_bytes(CPU) == 0
        assert crew_for(2**20, CPU) == Crew(1, 1)

    def test_large_models_go_in_small_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The graphs of a DeiT-Tiny, a ViT-B and a ViT-L, in MiB."""
        monkeypatch.setattr("whyformer.memory.free_bytes", lambda device: 2**40)
        assert [crew_for(size * 2**20, CPU).together for size in (39, 156, 411)] == [8, 2, 1]

    def test_what_may_not_work_abreast_does_not(
        self, cores: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert crew_for(2**20, CPU, abreast=False).processes == 1
        assert crew_for(2**20, torch.device("meta")).processes == 1
        monkeypatch.setattr("whyformer.memory.can_fork", lambda: False)
        assert crew_for(2**20, CPU).processes == 1


def limit(group: Path, most: str, used: int) -> None:
    """A control group as Linux tells of it."""
    (group / "memory.max").write_text(f"{most}\n")
    (group / "memory.current").write_text(f"{used}\n")
    (group / "memory.stat").write_text("anon 4000\ninactive_file 300\nactive_file 700\n")


def record_calls(
    monkeypatch: pytest.MonkeyPatch, path: Path, room: int = 99, both: int = 1
) -> Callable[[], list[tuple[int, int]]]:
    """Which process has how many photos read by the model, whichever processes there are.

    More photos than there is ``room`` for are too many. After the first, each waits until ``both``
    processes have come.
    """
    path.touch()
    usual = ImagePipeline.record_photos

    def calls() -> list[tuple[int, int]]:
        lines = (line.split() for line in path.read_text().splitlines())
        return [(int(process), int(size)) for process, size in lines]

    def record(self: ImagePipeline, photos: list[Photo], **options: bool) -> object:
        first = not calls()
        with path.open("a") as file:
            file.write(f"{os.getpid()} {len(photos)}\n")
        until = time.monotonic() + 30
        while not first and len({process for process, _ in calls()[1:]}) < both:
            assert time.monotonic() < until, "the other process did not come"
            time.sleep(0.01)
        if len(photos) > room:
            raise torch.OutOfMemoryError
        return usual(self, photos, **options)

    monkeypatch.setattr(ImagePipeline, "record_photos", record)
    return calls
