"""Folders with index.jsonl: images, labels and masks, written, read back, and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from data_sets import refused
from whyformer.errors import InputError
from whyformer.evaluation.data.samples import open_images


def drawn(path: Path, values: np.ndarray, palette: list[int] | None = None) -> None:
    image = Image.fromarray(values.astype(np.uint8))
    if palette is not None:
        image.putpalette(palette)
    image.save(path)


class TestIndexedImages:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        Image.new("RGB", (4, 2), "red").save(tmp_path / "a.png")
        drawn(tmp_path / "left.png", np.array([[255, 255, 0, 0]] * 2))
        drawn(tmp_path / "right.png", np.array([[0, 0, 0, 255]] * 2))
        return tmp_path

    @staticmethod
    def opened(folder: Path, *entries: Any, labels: list[str] | None = None) -> Any:
        lines = [e if isinstance(e, str) else json.dumps(e) for e in entries]
        (folder / "index.jsonl").write_text("\n".join(lines))
        return open_images(str(folder), 1, labels)

    def test_a_mask_for_each_class(self, folder: Path) -> None:
        entry = {"image": "a.png", "label": "dog", "masks": {"Cat": "left.png", "0": "right.png"}}
        sample = self.opened(folder, entry, labels=["dog", "cat"])[0]
        assert sample.label == 0
        assert {c: m[0].astype(int).tolist() for c, m in sample.masks.items()} == {
            1: [1, 1, 0, 0], 0: [0, 0, 0, 1],
        }  # fmt: skip
        assert sample.foreground[0].tolist() == [True, True, False, True]
        entry["mask"] = "left.png"
        sample = self.opened(folder, entry, labels=["dog", "cat"])[0]
        assert sample.foreground[0].tolist() == [True, True, False, False]

    def test_palette_masks_have_classes_and_void(self, folder: Path) -> None:
        colours = [0, 0, 0, 128, 0, 0, 0, 128, 0] + [9, 9, 9] * 252 + [224, 224, 192]
        drawn(folder / "voc.png", np.array([[0, 1, 2, 255]] * 2), colours)
        sample = self.opened(folder, {"image": "a.png", "mask": "voc.png"})[0]
        assert sample.foreground[0].tolist() == [False, True, True, False]

    @pytest.mark.parametrize("white", [0, 1, 255])
    def test_a_palette_of_black_and_white_is_a_drawing(self, folder: Path, white: int) -> None:
        colours = [0, 0, 0] * 256
        colours[3 * white : 3 * white + 3] = [255, 255, 255]
        black = 5
        drawn(folder / "bw.png", np.array([[white, black, black, white]] * 2), colours)
        sample = self.opened(folder, {"image": "a.png", "mask": "bw.png"})[0]
        assert sample.foreground[0].tolist() == [True, False, False, True]

    def test_class_numbers_without_a_palette_are_refused(self, folder: Path) -> None:
        drawn(folder / "m.png", np.array([[0, 15, 15, 255]] * 2))
        with pytest.raises(InputError, match="no mask of black and white"):
            self.opened(folder, {"image": "a.png", "mask": "m.png"})[0]
        Image.new("RGBA", (4, 2), (255, 255, 255, 0)).save(folder / "clear.png")
        with pytest.raises(InputError, match=r"clear\.png is no plain mask: .*transparent"):
            self.opened(folder, {"image": "a.png", "mask": "clear.png"})[0]

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ({"masks": {"unicorn": "left.png"}}, "'unicorn' is no class"),
            ({"masks": {"7": "left.png"}}, "class 7 of a model with 2"),
            ({"masks": {"cat": "left.png", "1": "right.png"}}, "two masks for the class 1"),
            ({"masks": {"cat": "nowhere.png"}}, "no such file"),
            ({"masks": {"cat": "small.png"}}, "3 x 3, and its image 4 x 2"),
            ({"mask": "small.png"}, "3 x 3, and its image 4 x 2"),
            ({"mask": "broken.png"}, "not an image"),
            ({"mask": "cut.png"}, "truncated or damaged"),
            ({"mask": "folder"}, "is a folder"),
            ({"label": 1.5}, "label 1.5"),
            ({"label": "unicorn"}, "'unicorn' is no class"),
        ],
    )
    def test_bad_samples(self, folder: Path, entry: Any, said: str) -> None:
        drawn(folder / "small.png", np.zeros((3, 3)), [0] * 768)
        (folder / "broken.png").write_bytes(b"no image")
        (folder / "folder").mkdir()
        drawn(folder / "cut.png", np.random.default_rng(0).integers(0, 9, (99, 99)), [3] * 768)
        (folder / "cut.png").write_bytes((folder / "cut.png").read_bytes()[:-2000])
        samples = self.opened(folder, {"image": "a.png", **entry}, labels=["dog", "cat"])
        with pytest.raises(InputError, match=said):
            samples[0]

    @pytest.mark.parametrize(
        ("entry", "said"),
        [
            ('{"image": "a.png", "mask": 3}', 'line 2: "mask" is 3'),
            ('{"image": "a.png", "masks": ["left.png"]}', 'line 2: expected "masks"'),
            ('{"image": "a.png", "masks": {"1": 3}}', 'line 2: expected "masks"'),
            ("[1, 2]", "line 2"),
            ('{"image": "b.png"}', r"lists 'b\.png' twice"),
        ],
    )
    def test_bad_lines(self, folder: Path, entry: str, said: str) -> None:
        with pytest.raises(InputError, match=said):
            self.opened(folder, {"image": "b.png"}, entry)

    def test_a_file_that_is_no_text(self, folder: Path) -> None:
        (folder / "index.jsonl").write_bytes(b"\xff\xfe\x00")
        refused(folder, "no text in UTF-8")

    def test_the_fingerprint_follows_the_index(self, folder: Path) -> None:
        first = self.opened(folder, {"image": "a.png", "label": 1}).fingerprint
        assert self.opened(folder, {"image": "a.png", "label": 2}).fingerprint != first
