"""SaCo, randomised weights, noise and completeness, each against a slow way to have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as T
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import whyformer
from conftest import shared
from ties import slow_order
from whyformer.errors import NumericalError
from whyformer.evaluation import evaluate
from whyformer.evaluation.data.samples import Scenes
from whyformer.evaluation.run.runner import read_records
from whyformer.evaluation.tasks.metrics import rank_correlation, relative_change, salience_agreement
from whyformer.evaluation.tasks.randomising import cascade, units
from whyformer.evaluation.tasks.saco import salience_groups, without_each
from whyformer.evaluation.tasks.sanity import NOISES, RADIUS, incompleteness, noisy

VALUES = arrays.arrays(float, 12, elements=st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0]))


@pytest.fixture(scope="module")
def why() -> Any:
    return whyformer.load("demo-vision")


def figures(folder: Path, benchmark: str) -> Any:
    return json.loads((folder / "results.json").read_text())[benchmark]


def slow_ranks(values: np.ndarray) -> list[float]:
    """One more than the smaller ones, and half of the others that are equal."""
    flat = values.ravel().tolist()
    return [1 + sum(o < v for o in flat) + (flat.count(v) - 1) / 2 for v in flat]


class TestSaco:
    def test_by_hand(self) -> None:
        """Pairs weigh 2, 3 and 1; only the first two groups are in the wrong order."""
        assert salience_agreement([4, 2, 1], [0.1, 0.3, 0.0]) == pytest.approx((-2 + 3 + 1) / 6)
        assert salience_agreement([4, 2, 1], [0.3, 0.2, 0.1]) == 1
        assert salience_agreement([4, 2, 1], [0.1, 0.2, 0.3]) == -1
        assert salience_agreement([1, 1, 1], [0.1, 0.2, 0.3]) == 0

    def test_against_a_loop_over_pixels(self, why: Any, tmp_path: Path) -> None:
        scenes = Scenes(1, 2)
        evaluate("saco", why, scenes, methods=["lrp"], out=tmp_path, progress=False)
        found = []
        for i in range(2):
            pixels = why.read(scenes[i].image)
            logits = why.model(why.normalise(pixels))[0].detach()
            asked = int(logits.argmax())
            heat = why.record_picture(pixels).explain(asked, "lrp").input_relevance[0]
            flat = heat.double().flatten().tolist()
            ranked = slow_order(flat, True, 0)
            salience, drops = [], []
            for group in range(10):
                members = [p for at, p in enumerate(ranked) if at * 10 // len(flat) == group]
                changed = pixels.clone()
                for channel in range(3):
                    mean = float(pixels[0, channel].mean())
                    for place in members:
                        changed[0, channel, place // 96, place % 96] = mean
                left = why.model(why.normalise(changed))[0].detach().softmax(-1)[asked]
                salience.append(sum(flat[place] for place in members))
                drops.append(float(logits.softmax(-1)[asked] - left))
            pairs = [(a, b) for a in range(10) for b in range(10) if a < b]
            weights = [salience[a] - salience[b] for a, b in pairs]
            signs = [1 if drops[a] >= drops[b] else -1 for a, b in pairs]
            total = sum(abs(w) for w in weights)
            found.append(sum(s * w for s, w in zip(signs, weights, strict=True)) / total)
        measured = figures(tmp_path, "saco")["lrp"]["saco"]
        assert measured == pytest.approx(100 * np.mean(found), abs=0.5)

    def test_groups_are_as_large_and_ordered(self, why: Any) -> None:
        heat = np.random.default_rng(0).random((96, 96))
        groups = salience_groups(heat, 0)
        assert set(np.unique(groups, return_counts=True)[1]) <= {921, 922}
        assert heat[groups == 3].min() >= heat[groups == 4].max()
        picture = torch.rand(1, 3, 96, 96)
        assert without_each(why, picture, groups).shape == (10, 10)

    def test_ties_are_averaged_and_told(self, why: Any, tmp_path: Path) -> None:
        result = evaluate("saco", why, methods=["gradcam"], limit=4, out=tmp_path, progress=False)
        assert result is not None
        assert result.tied["gradcam"] > 1
        assert "in random order, because equally relevant: gradcam" in result.summary


class TestCorrelation:
    @given(VALUES, VALUES)
    def test_against_ranks_one_by_one(self, one: np.ndarray, other: np.ndarray) -> None:
        if one.min() == one.max() or other.min() == other.max():
            assert rank_correlation(one, other) == 0
            return
        a, b = np.array(slow_ranks(one)), np.array(slow_ranks(other))
        a, b = a - a.mean(), b - b.mean()
        expected = (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())
        assert rank_correlation(one, other) == pytest.approx(expected, abs=1e-12)

    def test_against_scipy(self) -> None:
        stats = pytest.importorskip("scipy.stats")
        one, other = np.random.default_rng(0).random((2, 9, 9)).round(1)
        expected = stats.spearmanr(one.ravel(), other.ravel()).statistic
        assert rank_correlation(one, other) == pytest.approx(expected)
        assert rank_correlation(one, one) == pytest.approx(1)


class TestRandomising:
    def test_blocks_of_a_model(self, why: Any) -> None:
        found = units(why.model)
        assert [name for unit in found for name in unit] == [n for n, _ in named(why.model)]
        stem, blocks = ["stem.0", "stem.2", "stem.4"], [f"blocks.{i}" for i in range(5)]
        assert [unit[0] for unit in found] == [
            "class_token",
            *(f"{name}.weight" for name in stem),
            *(f"{name}.norm_1.weight" for name in blocks),
            "norm.weight",
        ]
        assert found[-1] == ["norm.weight", "norm.bias", "head.weight", "head.bias"]

    def test_blocks_of_a_vit(self) -> None:
        config = T.ViTConfig(
            hidden_size=8, num_hidden_layers=3, num_attention_heads=1, intermediate_size=8,
            image_size=32,
        )  # fmt: skip
        found = units(T.ViTForImageClassification(config))
        assert len(found) == 5
        assert all("embeddings" in name for name in found[0])
        assert all("classifier" in name or "layernorm" in name for name in found[-1])

    def test_a_stage_of_a_hierarchical_model_is_a_block(self) -> None:
        config = T.SwinConfig(
            image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 1], window_size=4
        )
        found = units(T.SwinForImageClassification(config))
        assert len(found) == 4
        assert len({name.split(".")[3] for name in found[1]}) == 1

    def test_one_more_block_each_time_from_the_output(self, why: Any) -> None:
        before = {name: value.clone() for name, value in why.model.state_dict().items()}
        blocks = list(reversed(units(why.model)))
        for i, other in enumerate(cascade(why)):
            random = {name for unit in blocks[: i + 1] for name in unit}
            for name, value in named(other.model):
                same = torch.equal(value, before[name])
                assert same == (name not in random or value.std(correction=0) == 0)
        assert i + 1 == len(blocks)
        for name, value in why.model.state_dict().items():
            assert torch.equal(value, before[name])
        assert other.model is not why.model

    def test_the_scale_stays(self, why: Any) -> None:
        *_, other = cascade(why)
        for (_, old), (_, new) in zip(named(why.model), named(other.model), strict=True):
            if old.numel() > 2000:
                spread = float(old.detach().std())
                assert float(new.detach().std()) == pytest.approx(spread, rel=0.1)
                moved = float((new - old).detach().mean())
                assert abs(moved) < 0.1 * spread

    def test_the_draws_are_the_same_every_time(self, why: Any) -> None:
        one, other = (dict(named(next(cascade(why)).model)) for _ in range(2))
        assert all(torch.equal(one[name], other[name]) for name in one)


class TestSanity:
    def test_against_a_loop(self, why: Any, tmp_path: Path) -> None:
        """Explain, disturb and compare again, with nothing of the benchmark's own sums."""
        method = "gradient_x_input"
        scene = Scenes(1, 1)
        before = {name: value.clone() for name, value in why.model.state_dict().items()}
        evaluate("sanity", why, scene, methods=[method], out=tmp_path, progress=False)
        assert all(torch.equal(v, before[n]) for n, v in why.model.state_dict().items())
        pixels = why.read(scene[0].image)

        def ask(other: Any, seen: Any) -> Any:
            return other.record_picture(seen).explain(asked, method)

        asked = int(why.model(why.normalise(pixels))[0].argmax())
        heat = ask(why, pixels).input_relevance[0].double().numpy()
        ranks, expected = np.array(slow_ranks(heat[:24, :24])), []
        assert rank_correlation(heat[:24, :24], heat[24:48, :24]) == pytest.approx(
            np.corrcoef(ranks, slow_ranks(heat[24:48, :24]))[0, 1]
        )
        for other in cascade(why):
            left = ask(other, pixels).input_relevance[0].double().numpy()
            expected.append(rank_correlation(heat, left))
        (record,) = read_records(tmp_path)
        assert record["randomised"] == pytest.approx(expected, abs=1e-3)
        changes = []
        for seen in noisy(pixels):
            assert float((seen - pixels).abs().max()) <= RADIUS + 1e-6
            moved = ask(why, seen).input_relevance[0].double().numpy() - heat
            changes.append(float(np.sqrt((moved**2).sum() / (heat**2).sum())))
        assert len(changes) == NOISES
        found = figures(tmp_path, "sanity")[method]
        assert found["sensitivity"] == pytest.approx(100 * max(changes), abs=0.1)
        logit = float(why.model(why.normalise(pixels))[0][asked].detach())
        error = abs(float(heat.sum()) - logit) / abs(logit)
        assert found["completeness_error"] == pytest.approx(100 * error, abs=0.1)
        assert found["randomised"]["mean"] == pytest.approx(
            100 * np.mean(np.abs(expected)), abs=0.1
        )
        assert found["randomised"]["curve"]["1.00"] == pytest.approx(
            100 * abs(expected[-1]), abs=0.1
        )

    def test_a_method_without_classes_does_not_see_the_head(self, why: Any, tmp_path: Path) -> None:
        """Roll-out reads attention alone: the last norm and the classifier are nothing to it."""
        pytest.importorskip("matplotlib")
        evaluate("sanity", why, methods=["rollout"], limit=1, out=tmp_path, progress=False)
        (record,) = read_records(tmp_path)
        assert record["randomised"][0] == pytest.approx(1)
        assert record["randomised"][-1] < 0.9
        assert "completeness_error" not in figures(tmp_path, "sanity")["rollout"]
        assert (tmp_path / "plots" / "curves-randomised.svg").exists()

    def test_completeness_holds_where_there_is_no_bias(self, tmp_path: Path) -> None:
        """Libra's input times gradient is complete up to the biases."""
        why = whyformer.load("demo-vision")
        with torch.no_grad():
            for name, value in why.model.named_parameters():
                if name.endswith("bias") or name in ("positions", "class_token"):
                    value.zero_()
        evaluate("sanity", why, methods=["gradient_x_input"], limit=1, out=tmp_path, progress=False)
        assert figures(tmp_path, "sanity")["gradient_x_input"]["completeness_error"] < 1

    def test_small_cases(self) -> None:
        zero, one = np.zeros(3), np.ones(3)
        assert relative_change(one, one) == 0
        assert relative_change(one, 3 * one) == pytest.approx(2)
        assert relative_change(zero, zero) == 0
        assert relative_change(zero, one) == 1
        assert incompleteness(torch.tensor([1.0, 2.0]), 4.0) == pytest.approx(0.25)
        with pytest.raises(NumericalError, match="logit is 0"):
            incompleteness(torch.tensor([1.0]), 0.0)

    @pytest.mark.slow
    def test_a_real_model_forgets(self, tmp_path: Path) -> None:
        deit = whyformer.load(shared("data", "deit_tiny_patch16_224_hf"))
        evaluate(
            "sanity", deit, shared("data", "pets_segmentation"), limit=1, out=tmp_path,
            methods=["transformer_attribution", "fullgrad"], progress=False,
        )  # fmt: skip
        for record in read_records(tmp_path):
            assert len(record["randomised"]) == 14
            assert abs(record["randomised"][-1]) < 0.9


def named(model: Any) -> list[tuple[str, torch.Tensor]]:
    return list(model.named_parameters())
