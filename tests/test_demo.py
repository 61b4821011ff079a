"""The first look: what `whyformer demo` writes and says."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from whyformer.cli import main
from whyformer.demo.scenes import draw_scene
from whyformer.demo.tour import SCENE_SEED
from whyformer.methods import default_methods


def test_the_tour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for label in draw_scene(SCENE_SEED, 2).labels:
        assert f"why {label}?" in said
    assert "why negative?" in said
    assert "why positive?" in said
    assert 'why " station" rather than " school"?' in said
    assert "by gradcam" not in said  # a note belongs to the method that is shown
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == [
        "boxes.png", "captions.png", "methods.png", "review.html", "review.png", "scene.html",
        "scene.png", "story.png",
    ]  # fmt: skip
    assert all(name in said for name in written)
    page = (tmp_path / "scene.html").read_text()
    shown = [*default_methods(), "attention_flow"]
    assert all(f'"method":"{name}"' in page for name in shown)
    width, height = Image.open(tmp_path / "methods.png").size
    assert width > 9 * 224
    assert height > 2 * 224
