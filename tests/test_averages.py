"""What many inputs have in common: the strongest words of a class, and mean maps."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from command_line import Run
from galleries import RECORDS, document
from whyformer.render.averages import Averages, Sums
from whyformer.render.records import map_of


class TestMeans:
    def test_words(self) -> None:
        averages = Averages()
        for words in (
            [("Good", 3.0), ("film", 1.0)],
            [("good", 1.0), ("good", 1.0), ("plot", 2.0)],
        ):
            averages.add(text_record(words))
        averages.add(text_record([("alone", 1.0)], label="other"))
        (only,) = averages.entries()
        assert (only["name"], only["texts"]) == ("good", 2)
        assert only["words"] == [
            {"text": "Good", "share": (3 / 4 + 2 / 4) / 2, "texts": 2},
            {"text": "plot", "share": 0.5, "texts": 1},
            {"text": "film", "share": 0.25, "texts": 1},
        ]

    def test_words_against_and_sinks(self) -> None:
        averages = Averages()
        for _ in range(2):
            words = [("for", 3.0), ("against", -1.0), ("sink", None)]
            averages.add(text_record(words, signed=True))
            averages.add(text_record(words, label="unsigned"))
        signed, unsigned = averages.entries()
        shares = [{word["text"]: word["share"] for word in e["words"]} for e in (signed, unsigned)]
        assert shares == [{"for": 0.75, "against": -0.25}, {"for": 1.0, "against": 0.0}]

    def test_maps(self, run: Run, digits: Path, tmp_path: Path) -> None:
        """The mean of the records' maps is the mean of the results', each on its own scale."""
        from whyformer.render.sheet import View

        out = tmp_path / "maps"
        run("explain", digits, "--target", "8", "--out", out, "--format", "npz")
        sums, expected = Sums("8"), []
        for line in (out / RECORDS).read_text().splitlines():
            record = json.loads(line)
            sums.add_map(record["views"][0])
            scores = np.load(out / record["result"])["scores"][0]
            expected.append(View("", None, scores).strength)
            assert np.abs(map_of(record["views"][0]) - expected[-1]).max() < 0.5 / 127 + 1e-9
        assert sums.map is not None
        assert np.abs(sums.map / 4 - np.mean(expected, 0)).max() < 0.5 / 127 + 1e-9
        (shown,) = document(out)["classes"]
        assert (shown["name"], shown["images"]) == ("8", 4)
        assert shown["map"].startswith("data:image/jpeg;base64,")

    def test_maps_of_another_grid_are_stretched(self) -> None:
        sums = Sums("a")
        for size in (4, 8):
            grid = np.zeros((size, size))
            grid[: size // 2] = 1
            sums.add_map(map_record(grid))
        assert sums.map is not None
        assert sums.map.shape == (4, 4)
        assert sums.map[0].min() == 2
        assert sums.map[3].max() == 0


def text_record(
    words: list[tuple[str, float | None]], label: str = "good", signed: bool = False
) -> dict[str, Any]:
    asked = {"index": 1, "label": label, "logit": 1.0, "probability": 0.5}
    view = {"asked": asked, "signed": signed, "words": [[" ", *word] for word in words]}
    return {"kind": "text", "predicted": asked, "views": [view]}


def map_record(grid: np.ndarray) -> dict[str, Any]:
    packed = base64.b64encode((grid * 127).astype(np.int8).tobytes()).decode()
    return {"signed": False, "grid": list(grid.shape), "map": packed}
