"""What an explanation costs, in forwards of the model, beside every figure."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import whyformer
from whyformer.evaluation import evaluate
from whyformer.evaluation.report import plots
from whyformer.evaluation.report.results import make_result
from whyformer.evaluation.report.tables import to_csv, to_latex, to_markdown, to_text
from whyformer.evaluation.run.runner import read_records
from whyformer.evaluation.run.timing import Clock
from whyformer.evaluation.tasks.task import Measure
from whyformer.evaluation.tasks.texts import logits_of
from whyformer.provenance import digest_of

SCORE = Measure(("score",), lambda r: [r["score"]], table="scores", column="score")
FEW = ("transformer_attribution", "rollout")


def test_the_clock_counts_in_forwards() -> None:
    clock = Clock(torch.device("cpu"))
    assert clock.cost("mine") == {}
    answer, seconds = clock.time(lambda: time.sleep(0.02))
    assert answer is None
    assert seconds >= 0.02
    clock.add("mine", 0.6)
    assert clock.cost("mine") == {}
    clock.forward = 0.2
    clock.add("mine", 5.0)
    assert clock.cost("mine") == {"forwards": 3.0}
    assert clock.cost("other") == {}


def test_the_median_of_the_samples_that_were_timed() -> None:
    code = digest_of("gradcam")
    records: list[dict[str, Any]] = [
        {"key": str(i), "method": "gradcam", "code": code, "score": 0.5, "forwards": cost}
        for i, cost in enumerate((2.0, 90.0, 4.0))
    ]
    records.append({"key": "3", "method": "gradcam", "code": code, "score": 0.5})
    facts = {"model": "m", "data": "d", "preset": "stable"}
    keys = [str(i) for i in range(4)]
    found = make_result("made_up", [SCORE], ["gradcam"], keys, records, facts)
    assert found.cost == {"gradcam": 4.0}
    assert to_text(found).splitlines()[-1].endswith(" 4.0")
    assert "| method | score | cost |\n| --- | ---: | ---: |" in to_markdown([found])
    assert "in forwards of the model" in to_markdown([found])
    assert r"\begin{tabular}{lrr}" in to_latex([found])
    assert "made_up,gradcam,cost,4.0,,,4\n" in to_csv([found])
    untimed = make_result("made_up", [SCORE], ["gradcam"], ["3"], records, facts)
    assert untimed.cost == {}
    assert "cost" not in to_text(untimed)


@pytest.mark.parametrize(
    ("benchmark", "model"),
    [("pointing", "demo-vision"), ("rationales", "demo-text"), ("erasure", "demo-text")],
)
def test_every_method_has_a_cost(tmp_path: Path, benchmark: str, model: str) -> None:
    pytest.importorskip("matplotlib")
    why = whyformer.load(model)
    evaluate(benchmark, why, methods=FEW, limit=2, out=tmp_path, progress=False)
    tree = json.loads((tmp_path / "results.json").read_text())
    assert set(tree["cost"][benchmark]) == set(FEW)
    assert all(cost > 0 for cost in tree["cost"][benchmark].values())
    drawn = (tmp_path / "plots" / "cost.svg").read_text()
    assert all(method in drawn for method in FEW)
    assert "<th scope=col>cost</th>" in (tmp_path / "report.html").read_text()


def test_maps_of_a_cache_have_no_cost(tmp_path: Path) -> None:
    why = whyformer.load("demo-vision")
    for folder in ("first", "again"):
        evaluate(
            "segmentation", why, methods=FEW, limit=2, out=tmp_path / folder,
            cache=tmp_path / "cache", progress=False,
        )  # fmt: skip
    timed = [
        record["method"] for record in read_records(tmp_path / "first") if "forwards" in record
    ]
    assert sorted(timed) == sorted(FEW)
    assert not any("forwards" in record for record in read_records(tmp_path / "again"))
    assert "cost" not in json.loads((tmp_path / "again" / "results.json").read_text())


@pytest.mark.parametrize("text", ["a joyless film", "a joyless film " * 400])
def test_the_plain_forward_of_a_text_is_what_is_recorded(text: str) -> None:
    why = whyformer.load("demo-text")
    torch.testing.assert_close(logits_of(why, text), why.record(text).logits, rtol=0, atol=1e-4)


def test_the_front_is_what_each_price_buys() -> None:
    figures = {"rollout": (1.0, 0.3), "gradcam": (2.0, 0.2), "fullgrad": (3.0, 0.9)}
    records: list[dict[str, Any]] = [
        {"key": "0", "method": m, "code": digest_of(m), "score": score, "forwards": cost}
        for m, (cost, score) in figures.items()
    ]
    facts = {"model": "m", "data": "d", "preset": "stable"}
    found = make_result("made_up", [SCORE], list(figures), ["0"], records, facts)
    (measure,) = found.measures
    best = [30.0, 20.0, 20.0] if measure.less_is_better else [30.0, 30.0, 90.0]
    front = plots._front(found, measure)
    assert [cost for cost, _ in front] == [1.0, 2.0, 3.0]
    assert [value for _, value in front] == pytest.approx([b * front[0][1] / 30 for b in best])
    free = make_result("made_up", [SCORE], ["lrp"], ["0"], [
        {"key": "0", "method": "lrp", "code": digest_of("lrp"), "score": 0.5}
    ], facts)  # fmt: skip
    assert plots._front(free, free.measures[0]) == []


@pytest.mark.parametrize("count", [3, 14, 40])
def test_a_legend_of_many_names_stays_inside_the_figure(count: int) -> None:
    pytest.importorskip("matplotlib")
    figure, (axis,) = plots._figure(1, 5.6, 3.8)
    for i in range(count):
        axis.plot([0, 1], [i, i], label=f"transformer_attribution:gradient=libra:{i}")
    plots._legend(figure, axis)
    figure.canvas.draw()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert len(legend.get_texts()) == count
    assert box.x0 >= 0
    assert box.x1 <= whole.x1
    assert box.y0 >= 0
    assert axis.get_window_extent().height > 200
