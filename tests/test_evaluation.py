"""The image benchmarks: what they measure of a sample and of a data set, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.integrate import trapezoid

import whyformer
from conftest import shared
from ties import slow_order
from whyformer.errors import InputError
from whyformer.evaluation import evaluate
from whyformer.evaluation.data.samples import ImageSample, Samples, Scenes
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.run.runner import read_records
from whyformer.evaluation.tasks.perturbation import DIRECTIONS, SHARES, perturb
from whyformer.evaluation.tasks.pictures import GRAINS, Answers, logits_of
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


class TestPerturbation:
    def test_against_pixels_one_by_one(self, why: Any) -> None:
        """The batch of blackened pictures is what a loop over pixels would make."""
        picture = why.read(Scenes(1, 1)[0].image)
        heat = np.random.default_rng(0).random((96, 96)).round(2)
        measured = perturb(why, picture, heat, order=2)
        for direction in DIRECTIONS:
            ranked = slow_order(heat.ravel().tolist(), direction == "positive", 2)
            for share, logits in zip(SHARES, measured[direction], strict=True):
                black = picture.clone()
                for place in ranked[: int(96 * 96 * share)]:
                    black[0, :, place // 96, place % 96] = 0
                torch.testing.assert_close(logits_of(why, black)[0], logits, rtol=0, atol=1e-4)

    def test_black_is_black_before_normalisation(self, why: Any) -> None:
        assert torch.equal(why.normalise(torch.zeros(1, 3, 2, 2)), torch.full((1, 3, 2, 2), -1.0))

    def test_figures_against_a_loop_over_samples(self, why: Any, tmp_path: Path) -> None:
        """Explain, remove, count and integrate again, with nothing of the runner's."""
        scenes = Scenes(1, 3)
        evaluate("perturbation", why, scenes, methods=["gradcam"], out=tmp_path, progress=False)
        right, probability = np.zeros((3, 10)), np.zeros((3, 11))
        for i in range(3):
            label = scenes[i].label
            explanation = why(scenes[i].image, label, "gradcam")
            heat = explanation.image_map()[0].numpy().ravel()
            assert np.mean(heat == 0) > 0.05  # so many pixels are tied that orders are averaged
            picture = why.read(scenes[i].image)
            for order in range(3):
                removed = slow_order(heat.tolist(), False, order)
                for step in range(11):
                    changed = picture.clone()
                    changed.view(3, -1)[:, removed[: int(heat.size * step / 10)]] = 0
                    logits = why.model(why.normalise(changed))[0].detach()
                    probability[i, step] += float(logits.softmax(-1)[label]) / 3
                    if step < 10:
                        right[i, step] += float(logits.argmax() == label) / 3
        found = figures(tmp_path)["perturbation"]["gradcam"]["negative_target"]
        curve = right.mean(0)
        assert found["auc"] == pytest.approx(100 * trapezoid(curve, dx=0.1))
        assert found["auc_10_90"] == pytest.approx(100 * trapezoid(curve[1:], dx=0.1))
        assert list(found["curve"].values()) == pytest.approx(100 * curve)
        area = trapezoid(probability.mean(0), dx=0.1)
        assert found["insertion"] == pytest.approx(100 * area, abs=0.01)

    def test_lrp_is_taken_at_the_pixels(self, why: Any) -> None:
        """As in the authors' benchmark; its sums over patches would flatter it."""
        pixels = why.read(Scenes(1, 1)[0].image)
        answers = Answers(why, pixels, "stable", Cache())
        found = answers.maps("lrp", [3], (96, 96))[3]
        expected = why.record_picture(pixels).explain(3, "lrp").input_relevance[0]
        np.testing.assert_allclose(found, expected.double().numpy(), atol=1e-7)

    def test_at_the_same_grain(self, why: Any, tmp_path: Path) -> None:
        """LRP's patches have the sums of their pixels; what ends at patches stays as it is."""
        pixels = why.read(Scenes(1, 1)[0].image)
        answers = [Answers(why, pixels, "stable", Cache(), grain) for grain in GRAINS]
        fine, coarse = (each.maps("lrp", [3], (12, 12))[3] for each in answers)
        whole = why.record_picture(pixels).explain(3, "lrp").input_relevance[0].double().numpy()
        sums = np.zeros((12, 12))
        for y, x in np.ndindex(96, 96):
            sums[y // 8, x // 8] += whole[y, x]
        np.testing.assert_allclose(coarse, sums, atol=1e-6)
        assert not np.allclose(fine, sums)
        same = [each.maps("witness", [3], (96, 96))[3] for each in answers]
        np.testing.assert_array_equal(*same)

    def test_a_run_has_one_grain(self, why: Any, tmp_path: Path) -> None:
        arguments = {"methods": ["lrp"], "limit": 2, "cache": tmp_path / "maps", "progress": False}
        told = [
            evaluate("perturbation", why, grain=grain, out=tmp_path / grain, **arguments)
            for grain in GRAINS
        ]
        assert "patches" not in told[0].summary
        assert "all maps of patches" in told[1].summary
        areas = [figures(tmp_path / grain)["perturbation"]["lrp"] for grain in GRAINS]
        assert areas[0] != areas[1]
        with pytest.raises(InputError, match="another grain"):
            evaluate("perturbation", why, out=tmp_path / "patches", **arguments)

    def test_both_classes_of_specific_methods(self, why: Any, tmp_path: Path) -> None:
        evaluate("perturbation", why, methods=FEW, limit=3, out=tmp_path, progress=False)
        found = figures(tmp_path)["perturbation"]
        assert set(found["rollout"]) == {"positive_predicted", "negative_predicted"}
        assert set(found["transformer_attribution"]) == {
            "positive_predicted", "negative_predicted", "positive_target", "negative_target",
        }  # fmt: skip
        assert all(0 <= setting["auc"] <= 90 for row in found.values() for setting in row.values())

    def test_a_wrong_prediction_is_explained_both_ways(self, why: Any, tmp_path: Path) -> None:
        """Labels that are wrong on purpose: two classes, two maps, the ground truth judges both."""

        class Mislabelled(Scenes):
            def __getitem__(self, index: int) -> ImageSample:
                sample = super().__getitem__(index)
                assert sample.label is not None
                return ImageSample(sample.key, sample.image, (sample.label + 1) % 10)

        evaluate(
            "perturbation", why, Mislabelled(1, 2), methods=FEW[:1], out=tmp_path, progress=False
        )
        for record in read_records(tmp_path):
            predicted, target = record["positive_predicted"], record["positive_target"]
            assert predicted["right"][0] == target["right"][0] == 0
            assert predicted["probability"][0] > 0.5 > target["probability"][0]


class TestOtherBenchmarks:
    def test_pointing_cannot_tell_classes_apart_without_the_class(
        self, why: Any, tmp_path: Path
    ) -> None:
        evaluate("pointing", why, methods=FEW, limit=6, out=tmp_path, progress=False)
        found = figures(tmp_path)["pointing"]
        assert found["rollout"]["points"] == 50
        assert found["rollout"]["inside"] == pytest.approx(found["rollout"]["other"])

    def test_segmentation_against_a_loop_over_samples(self, why: Any, tmp_path: Path) -> None:
        scenes = Scenes(1, 3)
        evaluate("segmentation", why, scenes, methods=["rollout"], out=tmp_path, progress=False)
        both = either = right = 0
        for i in range(3):
            sample = scenes[i]
            heat = why.record_picture(why.fit(sample.image)).explain(None, "rollout")
            found = heat.image_map()[0].double().numpy()
            found, truth = found > found.mean(), sample.foreground
            right += (found == truth).sum()
            both += np.array([(~found & ~truth).sum(), (found & truth).sum()])
            either += np.array([(~found | ~truth).sum(), (found | truth).sum()])
        measured = figures(tmp_path)["segmentation"]["rollout"]
        assert measured["pixel_accuracy"] == pytest.approx(100 * right / (3 * 96 * 96))
        assert measured["miou"] == pytest.approx(100 * np.mean(both / either))

    def test_a_method_of_ones_own_is_evaluated(
        self, why: Any, tmp_path: Path, own_method: str
    ) -> None:
        evaluate("segmentation", why, methods=[own_method], limit=2, out=tmp_path, progress=False)
        assert set(figures(tmp_path)["segmentation"][own_method]) == {
            "pixel_accuracy", "miou", "map", "miou_of_images",
        }  # fmt: skip

    @pytest.mark.parametrize("preset", ["paper", "reference"])
    def test_all_presets_and_all_methods(self, why: Any, tmp_path: Path, preset: str) -> None:
        names = [name for name in whyformer.methods() if name != "attention_flow"]
        evaluate(
            "segmentation", why, methods=names, preset=preset, limit=1, out=tmp_path,
            progress=False,
        )  # fmt: skip
        assert list(figures(tmp_path)["segmentation"]) == names
        assert figures(tmp_path)["preset"] == preset

    @pytest.mark.slow
    def test_segmentation_of_pets_is_near_the_known_figures(self, tmp_path: Path) -> None:
        """Other photos of the same kind gave accuracy 78.9 and IoU 62.6."""
        deit = whyformer.load(shared("data", "deit_tiny_patch16_224_hf"))
        pets = shared("data", "pets_segmentation")
        evaluate(
            "segmentation", deit, pets, methods=FEW[:1], limit=40, out=tmp_path, progress=False
        )
        found = figures(tmp_path)["segmentation"]["transformer_attribution"]
        assert found["pixel_accuracy"] == pytest.approx(78.9, abs=5)
        assert found["miou"] == pytest.approx(62.6, abs=6)


class TestBadSamples:
    def test_broken_samples_are_recorded_and_counted(self, why: Any, tmp_path: Path) -> None:
        data = tmp_path / "data"
        data.mkdir()
        Scenes(1, 1)[0].image.save(data / "good.png")
        Scenes(1, 1)[0].image.save(data / "again.png")
        (data / "broken.png").write_bytes(b"no image")
        Image.new("L", (96, 96), 255).save(data / "mask.png")
        Image.new("L", (9, 9), 255).save(data / "small.png")
        lines = [
            {"image": "good.png", "mask": "mask.png", "label": 1},
            {"image": "broken.png", "mask": "mask.png", "label": 1},
            {"image": "again.png", "mask": "small.png", "label": 1},
            {"image": "missing.png", "mask": "mask.png", "label": 1},
        ]
        (data / "index.jsonl").write_text("\n".join(map(json.dumps, lines)))
        result = evaluate(
            "segmentation", why, data, methods=FEW, out=tmp_path / "run", progress=False
        )
        assert result is not None
        assert "1 samples" in result.summary
        assert "3 could not be measured" in result.summary
        assert figures(tmp_path / "run")["counts"] == {"samples": 1, "failed": 3}
        assert "not an image" in result.failures["broken.png"]
        assert "9 x 9" in result.failures["again.png"]
        assert "no such file" in result.failures["missing.png"]
        page = (tmp_path / "run" / "report.html").read_text()
        assert "3 samples could not be measured" in page
        assert "broken.png" in page

    def test_mended_samples_are_measured_by_the_next_start(self, why: Any, tmp_path: Path) -> None:
        data = tmp_path / "data" / "3"
        data.mkdir(parents=True)
        Scenes(1, 1)[0].image.save(data / "good.png")
        (data / "late.png").write_bytes(b"")
        arguments = {"methods": FEW[:1], "out": tmp_path / "run", "progress": False}
        first = evaluate("perturbation", why, data.parent, **arguments)
        assert first is not None
        assert list(first.failures) == ["3/late.png"]
        Scenes(1, 2)[1].image.save(data / "late.png")
        second = evaluate("perturbation", why, data.parent, **arguments)
        assert second is not None
        assert (second.samples, second.failures) == (2, {})

    def test_a_method_that_fails_on_one_sample_spares_the_others(
        self, why: Any, tmp_path: Path
    ) -> None:
        calls = []

        @whyformer.register("moody", "fails the first time")
        def moody(question: Question) -> Answer:
            calls.append(1)
            if len(calls) == 1:
                raise InputError("not today")
            return question.pool(question.attention[-1][:, 0])

        try:
            result = evaluate(
                "segmentation", why, methods=["moody", "rollout"], limit=3, out=tmp_path,
                progress=False,
            )  # fmt: skip
        finally:
            registry._METHODS.pop("moody")
        assert result is not None
        assert result.samples == 2
        assert list(result.failures.values()) == ["moody: not today"]
        good = [r for r in read_records(tmp_path) if r["method"] == "rollout"]
        assert len(good) == 3
        assert not any("error" in record for record in good)

    def test_a_map_that_is_not_finite_is_never_scored(self, why: Any, tmp_path: Path) -> None:
        @whyformer.register("hollow", "nothing but NaN")
        def hollow(question: Question) -> Answer:
            return question.pool(question.attention[-1][:, 0] * float("nan"))

        try:
            with pytest.raises(InputError, match=r"hollow with preset .* NaN"):
                evaluate(
                    "segmentation", why, methods=["hollow"], limit=1, out=tmp_path, progress=False
                )
        finally:
            registry._METHODS.pop("hollow")

    def test_what_is_missing_is_named(self, why: Any, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"no such (file or )?folder"):
            evaluate("pointing", why, "nowhere", out=tmp_path / "a", progress=False)
        data = tmp_path / "data" / "11"
        data.mkdir(parents=True)
        Scenes(1, 1)[0].image.save(data / "a.png")
        for benchmark, said in (
            ("perturbation", "label 11 of a model with 10"),
            ("segmentation", "has no mask"),
            ("pointing", "fewer than two masks"),
        ):
            with pytest.raises(InputError, match=said):
                evaluate(
                    benchmark, why, data.parent, methods=FEW, out=tmp_path / benchmark,
                    progress=False,
                )  # fmt: skip
        with pytest.raises(InputError, match="needs images"):
            evaluate("pointing", whyformer.load("demo-text"), out=tmp_path / "d")
        with pytest.raises(InputError, match="counts word pieces"):
            evaluate("pointing", why, longest=3, out=tmp_path / "e")

    @pytest.mark.parametrize("problem", ["regression", "multi_label_classification"])
    def test_heads_that_choose_no_class(self, tmp_path: Path, problem: str) -> None:
        why = whyformer.load("demo-vision")
        why.explainer.problem = problem
        with pytest.raises(InputError, match="made for models that choose one of several classes"):
            evaluate("perturbation", why, out=tmp_path)

    def test_flat_maps_are_counted(self, why: Any, tmp_path: Path) -> None:
        @whyformer.register("level", "the same everywhere")
        def level(question: Question) -> Answer:
            return question.pool(torch.ones_like(question.attention[-1][:, 0]))

        try:
            result = evaluate(
                "segmentation", why, methods=["level", "rollout"], limit=2, out=tmp_path,
                progress=False,
            )  # fmt: skip
        finally:
            registry._METHODS.pop("level")
        assert result is not None
        assert result.flat == {"level": 2}
        assert "maps without any differences: level 2" in result.summary
        assert figures(tmp_path)["counts"]["flat_maps"] == {"level": 2}

    def test_no_samples_of_ones_own(self, why: Any, tmp_path: Path) -> None:
        class Nothing(Samples[ImageSample]):
            name, keys = "nothing", ()

            def __getitem__(self, index: int) -> ImageSample:
                raise IndexError(index)

        with pytest.raises(InputError, match="nothing holds no samples"):
            evaluate("pointing", why, Nothing(), out=tmp_path)
