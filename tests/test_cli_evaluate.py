"""``whyformer evaluate``: the commands as people type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run
from conftest import shared
from whyformer.cli.evaluating import BENCHMARKS

FEW = "transformer_attribution,rollout"


def test_all_prints_the_papers_three_tables(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "all"
    code, output, _ = run("evaluate", "all", "--limit", 2, "--methods", FEW, "-q", "--out", out)
    assert code == 0
    for name in ("perturbation: demo-vision", "segmentation: demo-vision", "rationales: demo-text"):
        assert name in output
    tree = json.loads((out / "results.json").read_text())
    row = tree["perturbation"]["transformer_attribution"]
    assert {
        "positive_predicted",
        "negative_predicted",
        "positive_target",
        "negative_target",
    } == set(row)
    assert isinstance(row["positive_predicted"]["auc"], float)
    assert set(tree["segmentation"]["rollout"]) >= {"pixel_accuracy", "miou", "map"}
    assert list(tree["rationales"]["rollout"]["token_f1"]) == [str(k) for k in range(10, 90, 10)]
    assert set(tree["runs"]) == {"perturbation", "segmentation", "rationales"}
    page = (out / "report.html").read_text()
    assert all(f"<h2>{name}</h2>" in page for name in tree["runs"])


def test_all_of_one_model(run: Run, tmp_path: Path) -> None:
    code, output, _ = run(
        "evaluate", "all", "--model", "demo-text", "--limit", 1, "--methods", FEW, "-q",
        "--out", tmp_path,
    )  # fmt: skip
    assert code == 0
    assert "rationales" in output
    assert "segmentation" not in output


def test_every_benchmark_says_where_its_report_is(run: Run, tmp_path: Path) -> None:
    for benchmark in BENCHMARKS:
        out = tmp_path / benchmark
        code, output, errors = run(
            "evaluate", benchmark, "--limit", 1, "--methods", FEW, "--out", out
        )
        assert code == 0, errors
        assert f"report: {out / 'report.html'}" in output
        assert "1/1" in errors


def test_all_methods_are_the_papers_first(run: Run, tmp_path: Path) -> None:
    code, _, _ = run(
        "evaluate", "segmentation", "--limit", 1, "--methods", "all", "-q", "--out", tmp_path
    )
    assert code == 0
    found = list(json.loads((tmp_path / "results.json").read_text())["segmentation"])
    assert found[0] == "transformer_attribution"
    assert "attention_flow" in found
    assert sum(name.startswith("ablation") for name in found) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["perturbation", "--methods", "rolout"], "unknown method 'rolout'; did you mean"),
        (["perturbation", "--limit", "0"], "--limit 0: expected at least 1"),
        (["perturbation", "--methods", ",,"], "--methods names none; give names with commas"),
        (["perturbation", "--preset", "papr"], "unknown preset 'papr'"),
        (["perturbation", "--grain", "words"], "unknown grain 'words'"),
        (["erasure", "--grain", "patches"], "grain 'patches' was given, and erasure has no grain"),
        (["perturbation", "--cut", "tail"], "cut 'tail' was given, and perturbation has no cut"),
        (["rationales", "--removal", "delete"], "and rationales has no removal"),
        (["saco", "--confidence", "0.9"], "confidence chooses photos for grids"),
        (["rationales", "--cut", "middle"], "unknown cut 'middle'"),
        (["perturbation", "--data", "nowhere"], "nowhere"),
        (["grid", "--confidence", "50"], "confidence 50.0; expected a probability from 0 to 1"),
        (["rationales", "--data", "nowhere"], "nowhere"),
        (["rationales", "--model", "demo-vision"], "demo-vision reads images"),
        (["boxes", "--model", "demo-vision"], "boxes needs a detector, and demo-vision reads"),
        (["captions", "--data", "photos"], "and no photos; leave the data out"),
        (["all", "--model", "demo-writer"], "demo-writer is made for language; name a benchmark"),
        (["erasure", "--longest", "100000"], "longest is 100000; expected 3 to"),
    ],
)
def test_mistakes_are_one_sentence(
    run: Run, tmp_path: Path, arguments: list[str], said: str
) -> None:
    code, _, errors = run("evaluate", *arguments, "--out", tmp_path / "run")
    assert code == 2
    assert said in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run" / "results.json").exists()


@pytest.mark.slow
def test_the_pets_command_as_it_is_documented(run: Run, tmp_path: Path) -> None:
    """On three of the photos; docs/results.md has them all."""
    model = shared("data", "deit_tiny_patch16_224_hf")
    code, output, _ = run(
        "evaluate", "segmentation", "--model", model, "--data", shared("data", "pets_segmentation"),
        "--methods", "transformer_attribution,rollout,raw_attention,gradcam", "--limit", 3,
        "--out", tmp_path / "pets",
    )  # fmt: skip
    assert code == 0
    assert "pets_segmentation, 3 of 400" in output
    code, output, _ = run(
        "evaluate", "perturbation", "--model", model, "--data", shared("data", "imagenet_samples"),
        "--methods", "rollout", "--limit", 2, "--out", tmp_path / "in",
    )  # fmt: skip
    assert code == 0
    assert "imagenet_samples, 2 of 500" in output


def test_samples_that_fail_are_an_exit_code(run: Run, tmp_path: Path) -> None:
    """As ``explain`` of a folder: a part is there, and the caller is told that it is a part."""
    data = tmp_path / "reviews.tsv"
    data.write_text("a warm film\tpositive\na joyless film\tnegative\nso so\tneither\n")
    arguments = ["erasure", "--data", data, "--methods", "rollout", "-q", "--out", tmp_path / "run"]
    code, output, _ = run("evaluate", *arguments)
    assert code == 2
    assert "1 could not be measured (the first, line-00003: the data's class 'neither'" in output
    data.write_text("sentence\tlabel\na warm film\tpositive\n\na joyless film\t0\n")
    code, output, _ = run("evaluate", *arguments[:-1], tmp_path / "other")
    assert code == 0
    assert "reviews.tsv" in output


def test_a_folder_of_tsvs_by_its_split(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("a warm film\tpositive\na joyless film\tnegative\n")
    arguments = ["--data", tmp_path, "--split", "dev", "--methods", "rollout", "-q"]
    code, output, _ = run("evaluate", "erasure", *arguments, "--out", tmp_path / "run")
    assert code == 0
    assert "dev.tsv" in output
    code, _, errors = run("evaluate", "rationales", *arguments, "--out", tmp_path / "other")
    assert code == 2
    assert "the sample has no evidence, which rationales need" in errors
