"""Benchmarks: what they measure, how a run survives, and what they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from conftest import shared
from whyformer.errors import InputError
from whyformer.evaluation import evaluate
from whyformer.evaluation.estimates import bootstrap, mean
from whyformer.evaluation.images import SHARES, logits_of, perturb
from whyformer.evaluation.samples import (
    ClassFolders,
    IndexedImages,
    Scenes,
    Some,
    imagenet_numbers,
    open_images,
)
from whyformer.methods import registry
from whyformer.methods.question import Answer, Question

FEW = ("transformer_attribution", "rollout")


@pytest.fixture(scope="module")
def why() -> Any:
    return whyformer.load("demo-vision")


@pytest.fixture
def own_method() -> Iterator[str]:
    @whyformer.register("first_row", "the last block's attention of the first head")
    def first_row(question: Question) -> Answer:
        return question.pool(question.attention[-1][:, 0])

    yield "first_row"
    registry._METHODS.pop("first_row")


def figures(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text())


class TestBenchmarks:
    def test_perturbation_against_pixels_one_by_one(self, why: Any) -> None:
        """The batch of blackened pictures is what a loop over pixels would make."""
        sample = Scenes(1, 1)[0]
        picture = why.read(sample.image)
        heat = np.random.default_rng(0).random((96, 96))
        measured = perturb(why, picture, heat, sample.label)
        for direction, sign in (("positive", -1), ("negative", 1)):
            for share, right in zip(SHARES, measured[direction], strict=True):
                ranked = sorted(range(96 * 96), key=lambda p: (sign * heat.flat[p], p))
                black = picture.clone()
                for place in ranked[: int(96 * 96 * share)]:
                    black[0, :, place // 96, place % 96] = 0
                assert int(logits_of(why, black)[0].argmax() == sample.label) == right

    def test_black_is_black_before_normalisation(self, why: Any) -> None:
        assert torch.equal(why.normalise(torch.zeros(1, 3, 2, 2)), torch.full((1, 3, 2, 2), -1.0))

    def test_perturbation_asks_both_classes_of_specific_methods(
        self, why: Any, tmp_path: Path
    ) -> None:
        evaluate("perturbation", why, methods=FEW, limit=3, out=tmp_path, progress=False)
        found = figures(tmp_path)["perturbation"]
        assert set(found["rollout"]) == {"positive_predicted", "negative_predicted"}
        assert set(found["transformer_attribution"]) == {
            "positive_predicted", "negative_predicted", "positive_target", "negative_target",
        }  # fmt: skip
        assert all(0 <= e["value"] <= 90 for row in found.values() for e in row.values())

    def test_pointing_cannot_tell_classes_apart_without_the_class(
        self, why: Any, tmp_path: Path
    ) -> None:
        evaluate("pointing", why, methods=FEW, limit=6, out=tmp_path, progress=False)
        found = figures(tmp_path)["pointing"]
        assert found["rollout"]["points"]["value"] == 50
        assert found["rollout"]["inside"]["value"] == pytest.approx(
            found["rollout"]["other"]["value"]
        )

    def test_a_method_of_ones_own_is_evaluated(
        self, why: Any, tmp_path: Path, own_method: str
    ) -> None:
        evaluate("segmentation", why, methods=[own_method], limit=2, out=tmp_path, progress=False)
        assert set(figures(tmp_path)["segmentation"][own_method]) == {
            "pixel_accuracy", "miou", "map",
        }  # fmt: skip

    @pytest.mark.slow
    def test_segmentation_of_pets_is_near_the_known_figures(self, tmp_path: Path) -> None:
        """Other photos of the same kind gave accuracy 78.9 and IoU 62.6."""
        deit = whyformer.load(shared("data", "deit_tiny_patch16_224_hf"))
        pets = shared("data", "pets_segmentation")
        evaluate(
            "segmentation", deit, pets, methods=FEW[:1], limit=40, out=tmp_path, progress=False
        )
        found = figures(tmp_path)["segmentation"]["transformer_attribution"]
        assert found["pixel_accuracy"]["value"] == pytest.approx(78.9, abs=5)
        assert found["miou"]["value"] == pytest.approx(62.6, abs=6)


class TestRuns:
    def test_a_finished_run_is_read_not_repeated(self, why: Any, tmp_path: Path) -> None:
        first = evaluate("pointing", why, methods=FEW, limit=4, out=tmp_path, progress=False)
        shard = tmp_path / "records-0.jsonl"
        before = shard.read_bytes()
        again = evaluate("pointing", why, methods=FEW, limit=4, out=tmp_path, progress=False)
        assert first is not None
        assert again is not None
        assert again.records == first.records
        assert shard.read_bytes() == before

    def test_half_a_line_counts_as_none(self, why: Any, tmp_path: Path) -> None:
        evaluate("pointing", why, methods=FEW, limit=4, out=tmp_path, progress=False)
        whole = figures(tmp_path)
        shard = tmp_path / "records-0.jsonl"
        shard.write_bytes(shard.read_bytes()[:-40])
        evaluate("pointing", why, methods=FEW, limit=4, out=tmp_path, progress=False)
        assert figures(tmp_path) == whole
        assert len(shard.read_text().splitlines()) == 4

    def test_other_settings_are_not_mixed_in(self, why: Any, tmp_path: Path) -> None:
        evaluate("pointing", why, methods=FEW, limit=2, out=tmp_path, progress=False)
        for change in ({"methods": FEW[:1]}, {"preset": "paper"}):
            with pytest.raises(InputError, match="holds a run with another"):
                evaluate(
                    "pointing", why, limit=2, out=tmp_path, progress=False,
                    **{"methods": FEW, **change},
                )  # fmt: skip

    @pytest.mark.slow
    def test_killed_and_resumed_and_two_ranks_equal_one(self, tmp_path: Path) -> None:
        base = [
            "whyformer",
            "evaluate",
            "pointing",
            "--limit",
            "12",
            "--methods",
            ",".join(FEW),
            "-q",
        ]
        source = str(Path(__file__).resolve().parents[1] / "src")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": source}

        def start(folder: str, *launcher: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", *launcher, *base, "--out", str(tmp_path / folder)]
            return subprocess.Popen(
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )

        whole = start("whole")
        assert whole.wait(120) == 0
        killed = start("killed")
        shard = tmp_path / "killed" / "records-0.jsonl"
        while not (shard.exists() and shard.read_bytes().count(b"\n") >= 2):
            time.sleep(0.05)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        left = shard.read_bytes().count(b"\n")
        assert start("killed").wait(120) == 0
        assert 2 <= left < 12
        assert figures(tmp_path / "killed") == figures(tmp_path / "whole")
        two = start("two", "torch.distributed.run", "--nproc-per-node", "2", "-m")
        assert two.wait(180) == 0, two.stderr and two.stderr.read().decode()[-2000:]
        assert len(list((tmp_path / "two").glob("records-*.jsonl"))) == 2
        assert figures(tmp_path / "two") == figures(tmp_path / "whole")


class TestData:
    def test_class_folders_by_number_index_and_label(self, tmp_path: Path) -> None:
        for kind, names, expected in (
            ("wnid", ["n01443537", "n15075141"], [1, 999]),
            ("index", ["3", "7"], [3, 7]),
            ("label", ["Cat", "dog"], [1, 0]),
        ):
            for name in names:
                (tmp_path / kind / name).mkdir(parents=True)
                Image.new("RGB", (8, 8)).save(tmp_path / kind / name / "a.png")
            samples = ClassFolders(tmp_path / kind, ["dog", "cat"])
            assert [samples[i].label for i in range(2)] == expected

    def test_imagenet_has_a_thousand_numbers(self) -> None:
        numbers = imagenet_numbers()
        assert len(set(numbers)) == 1000
        assert numbers == sorted(numbers)

    def test_indexed_images_with_masks(self, tmp_path: Path) -> None:
        Image.new("RGB", (6, 4), "red").save(tmp_path / "a.png")
        mask = Image.new("L", (6, 4))
        mask.putpixel((5, 0), 255)
        mask.save(tmp_path / "m.png")
        (tmp_path / "index.jsonl").write_text('{"image": "a.png", "mask": "m.png", "label": 3}\n')
        sample = IndexedImages(tmp_path, None)[0]
        assert sample.label == 3
        assert sample.foreground is not None
        assert sample.foreground.sum() == 1
        assert sample.foreground[0, 5]

    def test_some_are_spread_evenly(self) -> None:
        some = Some(Scenes(1, 100), 4)
        assert some.keys == ["1-00000", "1-00025", "1-00050", "1-00075"]
        assert len(Some(Scenes(1, 3), 10)) == 3

    def test_broken_samples_are_recorded_and_counted(self, why: Any, tmp_path: Path) -> None:
        data = tmp_path / "data"
        data.mkdir()
        Scenes(1, 1)[0].image.save(data / "good.png")
        (data / "broken.png").write_bytes(b"no image")
        Image.new("L", (96, 96), 255).save(data / "mask.png")
        Image.new("L", (9, 9), 255).save(data / "small.png")
        lines = [
            {"image": "good.png", "mask": "mask.png", "label": 1},
            {"image": "broken.png", "mask": "mask.png", "label": 1},
            {"image": "good.png", "mask": "small.png", "label": 1},
            {"image": "missing.png", "mask": "mask.png", "label": 1},
        ]
        lines[2]["image"] = "again.png"
        Scenes(1, 1)[0].image.save(data / "again.png")
        (data / "index.jsonl").write_text("\n".join(map(json.dumps, lines)))
        result = evaluate(
            "segmentation", why, data, methods=FEW[:1], out=tmp_path / "run", progress=False
        )
        assert result is not None
        assert "1 samples" in result.summary
        assert "3 could not be measured" in result.summary
        assert figures(tmp_path / "run")["failed"] == 3
        said = [record.get("error", "") for record in result.records]
        assert "not an image" in said[1]
        assert "9 x 9" in said[2]
        assert "no such file" in said[3]

    @pytest.mark.parametrize(
        ("content", "said"),
        [("", "no samples"), ("{}", "line 1"), ("no json", "line 1"), ('{"image": 3}', "line 1")],
    )
    def test_an_index_that_is_none(self, tmp_path: Path, content: str, said: str) -> None:
        (tmp_path / "index.jsonl").write_text(content)
        with pytest.raises(InputError, match=said):
            open_images(str(tmp_path), 1, None)

    def test_what_is_missing_is_named(self, why: Any, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such folder"):
            evaluate("pointing", why, "nowhere", out=tmp_path / "a", progress=False)
        data = tmp_path / "data" / "11"
        data.mkdir(parents=True)
        Scenes(1, 1)[0].image.save(data / "a.png")
        with pytest.raises(InputError, match="label 11 of a model with 10"):
            evaluate(
                "perturbation", why, data.parent, methods=FEW, out=tmp_path / "b", progress=False
            )
        with pytest.raises(InputError, match="has no mask"):
            evaluate(
                "segmentation", why, data.parent, methods=FEW, out=tmp_path / "c", progress=False
            )
        with pytest.raises(InputError, match="needs images"):
            evaluate("pointing", whyformer.load("demo-text"), out=tmp_path / "d")


class TestEstimates:
    def test_the_mean_and_its_interval(self) -> None:
        values = np.random.default_rng(1).normal(0.5, 0.1, 400)
        found = mean(values)
        assert found.value == pytest.approx(100 * values.mean())
        half = 100 * 1.96 * values.std() / 20
        assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.15)

    def test_a_ratio_of_sums(self) -> None:
        counts = np.array([[1.0, 10.0], [9.0, 10.0], [5.0, 5.0]])
        found = bootstrap(counts, lambda means: means[..., 0] / means[..., 1])
        assert found.value == pytest.approx(100 * 15 / 25)
        assert found.low <= found.value <= found.high
