"""Photos of a folder go through the model together, and each gets what it gets alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image

from command_line import Run, draw, results
from whyformer.models.images import ImagePipeline, Photo


class TestTogether:
    """Photos that go through the model together."""

    def test_each_gets_what_it_gets_alone(
        self, run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        assert (code, sizes) == (2, [1, 4])
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

    def test_no_room_after_all(
        self, run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What does not fit is tried in halves, and so is what follows."""
        for i in range(6):
            draw(photos / f"z{i}.png", i)
        sizes = record_sizes(monkeypatch, room=2)
        run("explain", photos, "--out", tmp_path / "maps", "--format", "json")
        assert sizes == [1, 8, 4, 2, 2, 4, 2, 2]
        assert len(results(tmp_path / "maps")) == 9


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
