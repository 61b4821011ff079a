"""Photos of a folder go through the model together, and each gets what it gets alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image

from command_line import Run, draw, results
from whyformer.memory import Crew, crew_for
from whyformer.models.images import ImagePipeline, Photo

CPU = torch.device("cpu")


@pytest.fixture(params=[1, 2], ids=["one thread", "abreast"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many of torch's, and so many of ours."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


class TestTogether:
    """Photos that go through the model together, by one thread or by two."""

    def test_each_gets_what_it_gets_alone(
        self,
        run: Run,
        photos: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        threads: int,
    ) -> None:
        """Also where a bad file lies between them, and where only one of them has a note."""
        draw(photos / "wide.png", 5)
        with Image.open(photos / "wide.png") as image:
            image.resize((200, 96)).save(photos / "wide.png")
        Image.new("RGBA", (96, 96), (200, 30, 30, 90)).save(photos / "bb.png")
        (photos / "ba.png").write_bytes(b"no image")
        sizes = record_sizes(monkeypatch)
        out = tmp_path / "maps"
        code, _, errors = run(
            "explain", photos, "-t", "3", "--out", out, "--format", "json", "--quiet"
        )
        assert (code, sizes) == (2, [1, 4] if threads == 1 else [1, 3, 1])
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
        sizes = record_sizes(monkeypatch)
        run("explain", photos, "--out", tmp_path / "maps", "--format", "json")
        assert sizes == [1, 1, 1]

    def test_in_their_order_by_threads_of_their_own(
        self,
        run: Run,
        photos: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        threads: int,
    ) -> None:
        """The first goes by the main thread; a later one never overtakes."""
        for i in range(21):
            draw(photos / f"z{i:02d}.png", i)
        workers: set[str] = set()
        usual = ImagePipeline.record_photos
        both = threading.Barrier(threads)

        def record(self: ImagePipeline, given: list[Photo], **options: bool) -> object:
            if len(given) > 1 and len(workers) < threads:
                both.wait(30)
                workers.add(threading.current_thread().name)
                assert torch.get_num_threads() == 1
            return usual(self, given, **options)

        monkeypatch.setattr(ImagePipeline, "record_photos", record)
        out = tmp_path / "maps"
        run("explain", photos, "--out", out, "--format", "json", "--quiet")
        kept = (out / ".whyformer-records-0.jsonl").read_text().splitlines()
        names = [json.loads(line)["name"] for line in kept]
        assert len(names) == 24
        assert names == sorted(names)
        assert len(workers) == threads
        assert ("MainThread" in workers) == (threads == 1)

    def test_no_room_after_all(
        self, run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What does not fit is tried in halves, and so is what follows."""
        monkeypatch.setattr("whyformer.memory.THREADS", 1)
        for i in range(6):
            draw(photos / f"z{i}.png", i)
        sizes = record_sizes(monkeypatch, room=2)
        run("explain", photos, "--out", tmp_path / "maps", "--format", "json")
        assert sizes == [1, 8, 4, 2, 2, 4, 2, 2]
        assert len(results(tmp_path / "maps")) == 9


class TestCrew:
    """How work is shared, by the memory, the cores and the inputs that wait."""

    def test_every_core_has_work(self, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("whyformer.memory.free_bytes", lambda device: 2**40)
        assert crew_for(2**20, CPU) == Crew(8, threads, 1)
        assert crew_for(2**20, CPU, waiting=4) == Crew(4 // threads, threads, 1)
        monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
        assert crew_for(2**20, CPU) == Crew(8, 4, 16)

    def test_little_memory_makes_it_smaller(
        self, threads: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A way back takes twice the graph, and all of it a quarter of what is free."""
        monkeypatch.setattr("whyformer.memory.free_bytes", lambda device: 8 * 6 * 2**20)
        assert crew_for(2**20, CPU) == Crew(6 // threads, threads, 1)
        assert crew_for(6 * 2**20, CPU) == Crew(1, 1, threads)
        assert crew_for(2**40, CPU) == Crew(1, 1, threads)

    def test_large_models_go_in_small_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The graphs of a DeiT-Tiny, a ViT-B and a ViT-L, in MiB."""
        monkeypatch.setattr("whyformer.memory.free_bytes", lambda device: 2**40)
        assert [crew_for(size * 2**20, CPU).together for size in (39, 156, 411)] == [8, 2, 1]

    def test_what_may_not_work_abreast_does_not(self, threads: int) -> None:
        assert crew_for(2**20, CPU, abreast=False).threads == 1
        assert crew_for(2**20, torch.device("meta")).threads == 1


def record_sizes(monkeypatch: pytest.MonkeyPatch, room: int = 99) -> list[int]:
    """How many photos each forward reads; more than there is room for are too many."""
    sizes: list[int] = []
    usual = ImagePipeline.record_photos

    def record(self: ImagePipeline, photos: list[Photo], **options: bool) -> object:
        sizes.append(len(photos))
        if len(photos) > room:
            raise torch.OutOfMemoryError
        return usual(self, photos, **options)

    monkeypatch.setattr(ImagePipeline, "record_photos", record)
    return sizes
