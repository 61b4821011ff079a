"""Videos: frames chosen evenly, drawn side by side, told over time and animated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from command_line import Run
from small_videos import VIDEOS, ball, save_video, write_frames, write_gif
from whyformer.errors import InputError, ModelError
from whyformer.models.videos import chosen, read_frames
from whyformer.render.animation import frames_of
from whyformer.render.sheets import make_sheet


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    save_video(folder / "timesformer", "timesformer")
    write_frames(folder / "frames", ball())
    write_gif(folder / "ball.gif", ball())
    return folder


@pytest.mark.parametrize("family", VIDEOS)
def test_video_classifiers_load_by_name(family: str, tmp_path: Path) -> None:
    why = whyformer.load(save_video(tmp_path / "model", family))
    assert why.takes == "video"
    assert why.reads == {"frames": 4}
    found = why(ball(4), target="moving")
    pixels = why._prepare(ball(4))  # type: ignore[attr-defined]
    bare = whyformer.Explainer(why.model, output="logits")({"pixel_values": pixels}, target=1)
    assert torch.allclose(found.relevance, bare.relevance, rtol=1e-3, atol=1e-7)
    volume = found.tokens.volume
    assert volume is not None
    patches = found.relevance[0, found.tokens.patches].reshape(volume)
    assert torch.allclose(found.over_time()[0], patches.sum((1, 2)))
    assert found.parts[0].picture is not None
    assert found.parts[0].picture.shape == (1, 3, 128, 128 * volume[0])
    each = 4 // volume[0]
    said = f"the model reads {each} frames as one: the first of them is drawn"
    assert (said in found.notes) == (each > 1)


def test_the_frames_are_seen_as_the_model_saw_them(tmp_path: Path) -> None:
    """Normalisation is undone, ViViT's offset as well."""
    grey = [Image.new("RGB", (40, 40), (60, 120, 180))] * 4
    for family in ("timesformer", "vivit"):
        why = whyformer.load(save_video(tmp_path / family, family))
        picture = why(grey).parts[0].picture
        assert picture is not None
        expected = torch.tensor([60, 120, 180]) / 255
        assert torch.allclose(picture.mean((0, 2, 3)), expected, atol=0.01)


def test_every_source_gives_the_same_frames(folder: Path) -> None:
    expected = [np.asarray(frame) for frame in ball()]
    sources: list[Any] = [
        ball(), np.stack(expected), folder / "frames", str(folder / "frames"),
    ]  # fmt: skip
    for source in sources:
        frames = read_frames(source, [])
        assert all(np.array_equal(np.asarray(a), b) for a, b in zip(frames, expected, strict=True))
    animated = [folder / "ball.gif", (folder / "ball.gif").read_bytes()]
    for source in animated:
        frames = read_frames(source, [])
        assert len(frames) == 8
        assert np.abs(np.asarray(frames[5], float) - expected[5]).mean() < 12  # a GIF's colours


def test_frames_are_chosen_evenly_and_it_is_said() -> None:
    notes: list[str] = []
    frames = ball(10)
    assert [frames.index(frame) for frame in chosen(frames, 4, notes)] == [0, 3, 6, 9]
    assert notes == ["the video has 10 frames: 4 were read, evenly spaced"]
    notes.clear()
    assert [frames.index(frame) for frame in chosen(frames[:2], 4, notes)] == [0, 0, 1, 1]
    assert notes[0].startswith("the video has 2 frames, fewer than the 4")


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "text": (
        lambda f: "a ball that moves",
        "no such file: a ball that moves; a video was expected",
    ),
    "number": (lambda f: 3, "a video was expected, not int"),
    "empty": (lambda f: [], "the video has no frames"),
    "empty folder": (lambda f: f / "none", "the video has no frames"),
    "one image": (lambda f: f / "frames" / "000.png", "is one image, not a video"),
    "film": (lambda f: f / "film.mp4", "is a film, which is not taken apart here; give a folder"),
    "no image": (lambda f: f / "film.txt", "is not an image that Pillow can read"),
    "sizes": (lambda f: [ball()[0], ball(side=20)[0]], "the frames have different sizes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_videos_get_one_sentence(case: str, folder: Path) -> None:
    (folder / "none").mkdir(exist_ok=True)
    for name in ("film.mp4", "film.txt"):
        (folder / name).write_bytes(b"\0\0\0 ftypisom")
    make, sentence = BAD[case]
    with pytest.raises(InputError, match=sentence):
        chosen(read_frames(make(folder), []), 4, [])


def test_a_processor_that_is_missing_is_said(tmp_path: Path) -> None:
    model = save_video(tmp_path / "model")
    (model / "preprocessor_config.json").rename(model / "video_preprocessor_config.json")
    with pytest.raises(ModelError, match="video processors that need torchvision are not used"):
        whyformer.load(model)


def test_an_animation_has_every_frame_on_one_scale(folder: Path, tmp_path: Path) -> None:
    found = whyformer.load(folder / "timesformer")(ball(4), method="fullgrad")
    sheet = make_sheet(found)
    assert sheet.frames == 4
    frames = frames_of(sheet)
    whole = np.concatenate([frame.views[0].scores for frame in frames], 1)
    assert np.array_equal(whole, sheet.views[0].scores)
    assert len({frame.views[0].span for frame in frames}) == 1
    with Image.open(found.save(tmp_path / "why.gif")) as animation:
        assert animation.n_frames == 4  # type: ignore[attr-defined]
    for ending in ("png", "html", "svg", "json", "npz", "tex"):
        assert found.save(tmp_path / f"why.{ending}").stat().st_size > 500
    image = whyformer.load("demo-vision")(Image.new("RGB", (96, 96)))
    with pytest.raises(InputError, match=r"only a video becomes a \.gif"):
        image.save(tmp_path / "image.gif")


def test_rows_of_frames_stand_in_the_order_of_the_map(tmp_path: Path) -> None:
    found = whyformer.load(save_video(tmp_path / "model", "vivit"))(ball(4), method="rollout")
    rows = make_sheet(found).views[0].rows
    assert found.matrix is not None
    assert rows is not None
    number = torch.arange(33)[found.tokens.patches]
    order = found.tokens.to_map(torch.arange(33)).flatten()
    assert sorted(order.tolist()) == number.tolist()
    assert np.allclose(rows[5, 9], float(found.matrix[0, order[5], order[9]]))


@pytest.mark.parametrize("source", ["frames", "ball.gif"])
def test_on_the_command_line(source: str, folder: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "why.json"
    model = folder / "timesformer"
    code, _, errors = run("explain", folder / source, "--model", model, "--out", out)
    assert (code, errors) == (0, "")
    written = json.loads(out.read_text())
    assert written["kind"] == "video"
    assert "the video has 8 frames: 4 were read, evenly spaced" in written["notes"]


def test_an_image_for_a_video_model(folder: Path, run: Run) -> None:
    code, _, errors = run(
        "explain", folder / "frames" / "000.png", "--model", folder / "timesformer"
    )
    assert code == 2
    assert "reads videos, and the input is an image" in errors
