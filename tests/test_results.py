"""Figures, what they are worth, and the reports that people read them in."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import whyformer
from typesetting import compiled
from whyformer.errors import InputError
from whyformer.evaluation import Result, evaluate, save_report
from whyformer.evaluation.data.samples import Scenes, Subset
from whyformer.evaluation.report import plots
from whyformer.evaluation.report.estimates import Resampled, holm
from whyformer.evaluation.report.published import is_vit_base, published
from whyformer.evaluation.report.results import make_result
from whyformer.evaluation.report.tables import tables_of, to_csv, to_latex, to_markdown, to_text
from whyformer.evaluation.tasks.perturbation import Perturbation
from whyformer.evaluation.tasks.task import Measure, Record, first
from whyformer.explainer import Explainer
from whyformer.models.images import ImagePipeline
from whyformer.provenance import digest_of

METHODS = ("transformer_attribution", "rollout", "gradcam")


def one(column: int) -> slice:
    return slice(column, column + 1)


class TestEstimates:
    def test_the_mean_and_its_interval(self) -> None:
        values = np.random.default_rng(1).normal(0.5, 0.1, (400, 1))
        found = Resampled(values).estimate(one(0), first)
        assert found.value == pytest.approx(100 * values.mean())
        half = 100 * 1.96 * values.std() / 20
        assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)

    def test_against_scipys_bootstrap(self) -> None:
        stats = pytest.importorskip("scipy.stats")
        values = np.random.default_rng(2).exponential(0.2, 150)
        found = Resampled(values[:, None]).estimate(one(0), first)
        other = stats.bootstrap((values,), np.mean, method="percentile", rng=3)
        assert found.low == pytest.approx(100 * other.confidence_interval.low, rel=0.03)
        assert found.high == pytest.approx(100 * other.confidence_interval.high, rel=0.03)

    def test_a_ratio_of_sums(self) -> None:
        counts = np.array([[1.0, 10.0], [9.0, 10.0], [5.0, 5.0]])
        found = Resampled(counts).estimate(slice(0, 2), lambda means: means[..., 0] / means[..., 1])
        assert found.value == pytest.approx(100 * 15 / 25)
        assert found.low <= found.value <= found.high

    def test_differences_are_paired(self) -> None:
        """Two methods that rise and fall together differ surely, though their intervals overlap."""
        rng = np.random.default_rng(0)
        common = rng.random(100)
        numbers = np.stack([common, common - 0.02 + rng.normal(0, 0.02, 100)], axis=1)
        bootstrap = Resampled(numbers)
        ours, other = (bootstrap.estimate(one(i), first) for i in (0, 1))
        assert ours.low < other.high
        found = bootstrap.difference(one(0), one(1), first)
        assert found.value == pytest.approx(2, abs=0.6)
        assert found.p < 0.01

    def test_p_values_are_those_of_a_paired_t_test(self) -> None:
        stats = pytest.importorskip("scipy.stats")
        rng = np.random.default_rng(5)
        for shift in (0.0, 0.02, 0.05):
            numbers = rng.normal(0.5, 0.1, (120, 2))
            numbers[:, 1] += shift
            found = Resampled(numbers).difference(one(0), one(1), first)
            expected = stats.ttest_rel(numbers[:, 0], numbers[:, 1]).pvalue
            assert found.p == pytest.approx(expected, abs=0.03)

    def test_false_alarms_are_as_rare_as_promised(self) -> None:
        rng = np.random.default_rng(7)
        alarms = sum(
            Resampled(rng.random((60, 2))).difference(one(0), one(1), first).p < 0.05
            for _ in range(200)
        )
        assert alarms / 200 == pytest.approx(0.05, abs=0.04)

    def test_many_methods_can_be_told_apart(self) -> None:
        """Corrected for all pairs of thirty methods, 2000 draws could never show anything."""
        rng = np.random.default_rng(0)
        numbers = rng.normal(0.5, 0.1, (80, 30)) + np.arange(30) / 10
        pairs = list(combinations(range(30), 2))
        resampled = Resampled(numbers, len(pairs))
        chances = [resampled.difference(one(i), one(j), first).p for i, j in pairs]
        assert max(holm(chances)) < 0.05

    def test_few_samples_tell_nothing(self) -> None:
        for count in (1, 2, 5):
            apart = np.stack([np.ones(count), np.zeros(count)], axis=1)
            assert Resampled(apart).difference(one(0), one(1), first).p > 0.05

    def test_against_scipys_permutation_test_of_a_ratio(self) -> None:
        stats = pytest.importorskip("scipy.stats")
        rng = np.random.default_rng(3)
        pixels = rng.integers(50, 150, 30).astype(float)
        right = np.stack([pixels * rng.uniform(0.5, 0.9, 30), pixels * rng.uniform(0.6, 0.95, 30)])
        numbers = np.stack([right[0], pixels, right[1], pixels], axis=1)
        found = Resampled(numbers).difference(
            slice(0, 2), slice(2, 4), lambda means: means[..., 0] / means[..., 1]
        )
        other = stats.permutation_test(
            (right[0], right[1]),
            lambda a, b: a.sum() / pixels.sum() - b.sum() / pixels.sum(),
            permutation_type="samples", n_resamples=4000, rng=1, vectorized=False,
        )  # fmt: skip
        assert found.value == pytest.approx(100 * other.statistic)
        assert found.p == pytest.approx(other.pvalue, abs=0.02)

    def test_equal_columns_are_never_told_apart(self) -> None:
        same = np.repeat(np.random.default_rng(0).random((9, 1)), 2, axis=1)
        assert Resampled(same).difference(one(0), one(1), first).p == 1

    def test_holms_correction_by_hand(self) -> None:
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
        assert holm([0.9, 0.6]) == [1.0, 1.0]
        assert holm([]) == []


SCORE = Measure(("score",), lambda r: [r["score"]], table="scores", column="score")
COST = Measure(
    ("deep", "cost"), lambda r: [r["cost"]] if "cost" in r else None, table="scores",
    column="cost", less_is_better=True,
)  # fmt: skip


def records(scores: dict[str, list[float]]) -> Iterator[Record]:
    for method, values in scores.items():
        for i, value in enumerate(values):
            cost = {} if method == "rollout" else {"cost": value / 2}
            yield {
                "key": str(i), "method": method, "code": digest_of(method), "score": value, **cost,
            }  # fmt: skip


def result(scores: dict[str, list[float]], extra: list[Record] | None = None) -> Result:
    length = max(len(values) for values in scores.values())
    return make_result(
        "made_up",
        [SCORE, COST],
        list(scores),
        [str(i) for i in range(length)],
        [*records(scores), *(extra or [])],
        {"model": "a <b>model</b>", "data": "some & more", "preset": "stable"},
    )


@pytest.fixture
def found() -> Result:
    rng = np.random.default_rng(0)
    base = rng.random(50)
    return result(
        {
            "transformer_attribution": (base * 0.5 + 0.4).tolist(),
            "rollout": (base * 0.5 + 0.4 + rng.normal(0, 0.01, 50)).tolist(),
            "gradcam": (base * 0.5).tolist(),
        }
    )


class TestResults:
    def test_the_best_and_what_is_as_good(self, found: Result) -> None:
        assert set(found.as_good(SCORE)) == {"transformer_attribution", "rollout"}
        assert found.best(COST) == "gradcam"
        assert found.as_good(COST) == ["gradcam"]
        assert found.having(COST) == ["transformer_attribution", "gradcam"]

    def test_only_samples_that_all_methods_have_count(self) -> None:
        code = digest_of("rollout")
        failed = {"key": "2", "method": "rollout", "code": code, "error": "broken"}
        found = result({"gradcam": [0.1, 0.2, 0.9], "rollout": [0.3, 0.4]}, [failed])
        assert found.samples == 2
        assert found.failures == {"2": "rollout: broken"}
        assert found.estimates["gradcam", SCORE].value == pytest.approx(15)

    def test_records_of_older_code_or_other_methods_do_not_count(self) -> None:
        stale = {"key": "0", "method": "gradcam", "code": "old", "score": 0.9}
        other = {"key": "0", "method": "mine", "code": "x", "score": 0.9}
        found = result({"gradcam": [0.1]}, [stale, other])
        assert found.estimates["gradcam", SCORE].value == pytest.approx(10)

    def test_nothing_measured(self) -> None:
        code = digest_of("gradcam")
        with pytest.raises(InputError, match="no sample could be measured; the first: broken"):
            make_result(
                "made_up", [SCORE], ["gradcam"], ["a"],
                [{"key": "a", "method": "gradcam", "code": code, "error": "broken"}], {},
            )  # fmt: skip


class TestTables:
    def test_text(self, found: Result) -> None:
        lines = str(found).splitlines()
        assert lines[0].startswith("made_up: a <b>model</b> on some & more, 50 samples")
        row = {line.split()[0]: line for line in lines if line}
        assert row["gradcam"].rstrip().endswith("*")
        assert row["rollout"].rstrip().endswith("-")
        assert ("*" in row["rollout"]) != ("*" in row["transformer_attribution"])
        assert "~" in row["rollout"] + row["transformer_attribution"]

    def test_markdown_and_csv_agree_with_the_figures(self, found: Result) -> None:
        shown = to_markdown([found])
        assert "| --- | ---: | ---: |" in shown
        value = found.estimates["gradcam", SCORE].value
        assert f"| `gradcam` | {value:.1f} ±" in shown
        rows = list(csv.DictReader(to_csv([found]).splitlines()))
        (row,) = [r for r in rows if (r["method"], r["measure"]) == ("gradcam", "deep/cost")]
        assert float(row["value"]) == found.estimates["gradcam", COST].value
        assert row["n"] == "50"

    def test_latex_compiles(self, found: Result, tmp_path: Path) -> None:
        table = to_latex([found])
        assert r"\textbf{" in table
        assert r"\underline{" in table
        (tmp_path / "t.tex").write_text(
            r"\documentclass{article}\IfFileExists{booktabs.sty}{\usepackage{booktabs}}"
            r"{\let\toprule\hline\let\midrule\hline\let\bottomrule\hline}\begin{document}"
            + table
            + r"\end{document}"
        )
        compiled(tmp_path / "t.tex")

    def test_one_method_has_no_rivals(self) -> None:
        found = result({"gradcam": [0.1, 0.2]})
        assert found.comparisons == []
        assert "*" in tables_of(found)[0].text()


class TestReports:
    def test_results_json_is_as_documented(self, found: Result, tmp_path: Path) -> None:
        save_report([found], tmp_path)
        tree = json.loads((tmp_path / "results.json").read_text())
        estimate = found.estimates["gradcam", COST]
        assert tree["made_up"]["gradcam"]["deep"]["cost"] == estimate.value
        assert tree["intervals"]["made_up"]["gradcam"]["deep"]["cost"] == [
            estimate.low, estimate.high,
        ]  # fmt: skip
        assert tree["counts"] == {"samples": 50, "failed": 0}
        assert (tree["model"], tree["preset"]) == ("a <b>model</b>", "stable")
        assert {"whyformer", "torch", "transformers"} <= set(tree["versions"])
        (test,) = [t for t in tree["tests"]["made_up"] if t["measure"] == "deep/cost"]
        assert (test["best"], test["other"]) == ("gradcam", "transformer_attribution")
        assert test["interval"][0] <= test["difference"] <= test["interval"][1] < 0
        assert test["p"] < 0.01

    def test_several_benchmarks_in_one_report(self, found: Result, tmp_path: Path) -> None:
        save_report([found, found], tmp_path)
        tree = json.loads((tmp_path / "results.json").read_text())
        assert tree["runs"]["made_up"]["counts"]["samples"] == 50
        assert "model" not in tree

    def test_the_page_needs_nothing_and_escapes_everything(
        self, found: Result, tmp_path: Path
    ) -> None:
        save_report([found], tmp_path)
        page = (tmp_path / "report.html").read_text()
        assert "<b>model" not in page
        assert "a &lt;b&gt;model&lt;/b&gt;" in page
        assert "data:image/svg+xml" in page
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
        assert "<script" not in page

    def test_without_matplotlib_all_but_the_plots(
        self, found: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("whyformer.evaluation.report.report.has_plots", lambda: False)
        save_report([found], tmp_path)
        assert not (tmp_path / "plots").exists()
        assert {path.name for path in tmp_path.iterdir()} == {
            "results.json", "table.md", "table.csv", "table.tex", "report.html",
        }  # fmt: skip

    def test_plots_show_every_method(self, tmp_path: Path) -> None:
        why = whyformer.load("demo-vision")
        evaluate("perturbation", why, Scenes(1, 2), methods=METHODS, out=tmp_path, progress=False)
        names = {path.name for path in (tmp_path / "plots").iterdir()}
        assert names == {
            f"{name}.{kind}"
            for name in (
                "perturbation",
                "perturbation-2",
                "curves-predicted",
                "curves-target",
                "cost",
            )
            for kind in ("png", "svg")
        }
        drawn = (tmp_path / "plots" / "curves-predicted.svg").read_text()
        assert all(method in drawn for method in METHODS)
        assert "rollout" not in (tmp_path / "plots" / "curves-target.svg").read_text()
        with Image.open(tmp_path / "plots" / "perturbation.png") as image:
            assert image.width > 900

    def test_the_same_records_give_the_same_files(self, found: Result, tmp_path: Path) -> None:
        save_report([found], tmp_path / "a")
        save_report([found], tmp_path / "b")
        for path in (tmp_path / "a").rglob("*"):
            if path.is_file():
                other = tmp_path / "b" / path.relative_to(tmp_path / "a")
                assert path.read_bytes() == other.read_bytes(), path.name

    def test_matplotlib_is_there(self) -> None:
        assert plots.has_plots()


class TestPublished:
    @pytest.fixture
    def vit_base(self) -> Any:
        from transformers import ViTConfig, ViTForImageClassification

        config = ViTConfig(num_labels=1000)
        with whyformer_on_meta():
            return ViTForImageClassification(config)

    def test_the_papers_model_is_known_by_its_shapes(self, vit_base: Any) -> None:
        assert is_vit_base(vit_base)
        assert not is_vit_base(whyformer.load("demo-vision").model)

    def test_figures_stand_beside_the_papers_model_and_data_only(self, vit_base: Any) -> None:
        def read(mean: float, std: float) -> Any:
            return ImagePipeline("vit", Explainer(vit_base), lambda images: images, [mean], [std])

        why, other = read(0.5, 0.5), read(0.485, 0.229)
        measures = Perturbation("stable").measures()
        scenes: Any = Scenes(1, 50_000)
        assert published("perturbation", why, scenes, measures) == {}
        scenes.benchmark = "imagenet"
        assert published("perturbation", why, Subset(scenes, 49_999), measures) == {}
        known = published("perturbation", why, scenes, measures)
        auc = next(m for m in measures if m.path == ("negative_target", "auc"))
        assert known["transformer_attribution", auc] == 55.04
        assert ("rollout", auc) not in known
        assert published("segmentation", why, scenes, measures) == {}
        assert published("perturbation", other, scenes, measures) == {}  # as DeiT-B/16 reads
        demo = whyformer.load("demo-vision")
        assert published("perturbation", demo, scenes, measures) == {}

    def test_they_are_shown_in_brackets(self, found: Result) -> None:
        found.published["gradcam", SCORE] = 12.34
        assert re.search(r"gradcam +[\d.]+ ±[\d.]+ \[12\.34\]", to_text(found))
        assert "in brackets" in to_markdown([found])


def whyformer_on_meta() -> Any:
    import torch

    return torch.device("meta")
