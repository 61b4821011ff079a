"""Methods and presets of one's own: from files, from packages, and apart from the built-in ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import whyformer
from command_line import Run
from whyformer.engine import PRESETS, Preset
from whyformer.methods import registry
from whyformer.methods.question import Answer, Question
from whyformer.provenance import digest_of, rules_of
from zoo import CASES

OWN = """
import whyformer

SHARE = {share}


def weighted(attention):
    return attention * SHARE


@whyformer.register("of_a_file", "the last block's attention, first head")
def of_a_file(question):
    return question.pool(weighted(question.attention[-1][:, 0]))
"""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """What a test registers is gone after it."""
    whyformer.methods()
    methods, presets = dict(registry._METHODS), dict(PRESETS)
    yield
    for table, before in ((registry._METHODS, methods), (PRESETS, presets)):
        table.clear()
        table.update(before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my method.py"
    path.write_text(OWN.format(share=0.5))
    return path


def test_a_file_brings_methods(file: Path) -> None:
    brought = whyformer.methods_from(file)
    assert list(brought) == ["of_a_file"]
    assert brought["of_a_file"].file == file
    assert not brought["of_a_file"].built_in
    why = whyformer.load("demo-text")
    mine = why("a joyless film", method="of_a_file")
    attention = why("a joyless film", keep_blocks=True).blocks
    assert attention is not None
    assert torch.allclose(mine.relevance, attention.attention[-1][:, 0, 0] / 2)


def test_two_files_of_one_name_are_two(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        path = tmp_path / folder / "mine.py"
        path.parent.mkdir()
        path.write_text(OWN.format(share=1).replace("of_a_file", f"of_{folder}"))
        whyformer.methods_from(path)
    assert whyformer.methods()["of_a"].file != whyformer.methods()["of_b"].file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nx / 0", "line 2: ZeroDivisionError"),
        ("def f(:", "line 1: SyntaxError"),
        ("import no_such_package", "line 1: ModuleNotFoundError"),
        ("import sys\nsys.exit(0)", "line 2: SystemExit"),
        (OWN.format(share=1).replace('"of_a_file"', '"rollout"'), "choose another name"),
    ],
)
def test_a_file_that_fails_says_where(run: Run, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    code, _, errors = run("methods", "--methods-from", path)
    assert code == 2
    assert "bad.py failed" in errors
    assert message in errors


WRONG = """
import whyformer
from whyformer.methods.question import Answer


@whyformer.register("short", "forgets the class token")
def short(question):
    return Answer(question.attention[-1][:, 0, 0, 1:])


@whyformer.register("heads", "forgets the mean over heads")
def heads(question):
    return question.pool(question.attention[-1])


@whyformer.register("bare", "no answer")
def bare(question):
    return question.attention[-1].mean(1)[:, 0]


@whyformer.register("whole", "whole numbers")
def whole(question):
    return Answer(question.attention[-1][:, 0, 0].long())


@whyformer.register("blank", "not a number")
def blank(question):
    return question.pool(question.attention[-1].mean(1) * float("nan"))


@whyformer.register("boom")
def boom(question):
    \"\"\"A mistake of the user's.\"\"\"
    return question.no_such_thing


@whyformer.register("mute", "says what it cannot tell, and fails", remark=lambda maps: maps.said)
def mute(question):
    return question.pool(question.attention[-1].mean(1))


@whyformer.register("odd", "says it without a list", remark=lambda maps: "nothing")
def odd(question):
    return mute(question)
"""
MISTAKES = [
    ("short", r"\(wrong.py:6\) returned relevance of shape \(1, 4\); expected \(1, 5\)"),
    ("heads", "average over the heads first"),
    ("bare", "returned Tensor; expected an Answer"),
    ("whole", "no tensor of floating point"),
    ("blank", "gave NaN or infinity in float32; its map is not shown"),
    ("boom", r"failed \(wrong.py:34\): AttributeError: .* 'no_such_thing'"),
    ("mute", r"failed \(wrong.py:37\): AttributeError: .* 'said'"),
    ("odd", r"the remark of the method 'odd' \(wrong.py:42\) is str; expected a list of sentences"),
]


def test_what_its_maps_cannot_tell_stands_in_the_notes() -> None:
    """A sentence for all maps of an answer, which the batch's samples and targets are."""

    def remark(maps: torch.Tensor) -> list[str]:
        return [f"{len(maps)} maps of {maps.shape[1]} tokens"]

    @whyformer.register("modest", "the last block's attention", remark=remark)
    def modest(question: Question) -> Answer:
        return question.pool(question.attention[-1].mean(1))

    model, inputs = CASES[0].make()
    count = len(inputs)
    found = whyformer.Explainer(model)(inputs, [[0, 1]] * count, "modest")
    assert f"{2 * count} maps of {found.relevance.shape[-1]} tokens" in found.notes


@pytest.mark.parametrize(("name", "said"), MISTAKES)
def test_wrong_answers_are_refused(run: Run, tmp_path: Path, name: str, said: str) -> None:
    """A map of the wrong shape would be a picture like any other."""
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    code, _, errors = run("explain", "a lifeless film", "--methods-from", path, "--method", name)
    assert code == 2
    assert re.search(said, errors)
    assert whyformer.methods()["boom"].summary == "A mistake of the user's."


def test_a_mistake_stops_an_evaluation(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    command = ["evaluate", "pointing", "--limit", 2, "--methods-from", path, "--methods", "boom"]
    code, _, errors = run(*command, "--quiet", "--out", tmp_path / "run")
    assert code == 2
    assert "the method 'boom' failed (wrong.py:34)" in errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "registers no method and no preset"),
        ("import whyformer\n@whyformer.register\ndef f(q): ...", "register takes a name"),
        ("import whyformer\n@whyformer.register('f')\ndef f(q): ...", "has no summary"),
        (
            "import whyformer\n@whyformer.register('f', 'f', needs='nowhere')\ndef f(q): ...",
            "the method 'f' needs nowhere, which is not installed",
        ),
    ],
)
def test_what_is_no_method(run: Run, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "file.py"
    path.write_text(text)
    for _ in range(2):
        code, _, errors = run("methods", "--methods-from", path)
        assert code == 2
        assert said in errors


def test_options_are_not_guessed(run: Run, scene: Path) -> None:
    """``--methods`` was once taken for the start of ``--methods-from``."""
    assert "unrecognized arguments: --methods-fr" in run("methods", "--methods-fr", "x.py")[2]
    out = run("compare", scene, "--methods", "lrp,rollout", "--method", "gradcam", "--json")[1]
    views = json.loads(out)["views"]
    assert list(dict.fromkeys(view["method"] for view in views)) == ["lrp", "rollout", "gradcam"]


def test_a_file_that_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    for name in ("absent.py", "binary.py", "."):
        code, _, errors = run("methods", "--methods-from", tmp_path / name)
        assert code == 2
        assert "cannot read" in errors
        assert "give a Python file" in errors


def test_built_in_names_are_taken() -> None:
    """Before the built-in methods are imported, too."""
    code = """
import whyformer
try:
    whyformer.register("rollout", "not the rollout")(lambda question: None)
except whyformer.InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "'rollout' is a method of whyformer; choose another name"


def test_results_of_older_code_are_not_kept(file: Path) -> None:
    """Also where only a helper of the method changed."""
    whyformer.methods_from(file)
    before = digest_of("of_a_file")
    file.write_text(OWN.format(share=0.25))
    assert digest_of("of_a_file") == before
    whyformer.methods_from(file)
    assert digest_of("of_a_file") != before


def test_a_folder_of_results_knows_the_code(run: Run, file: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a joyless film\na warm film\n")
    command = [
        "explain", "--lines", tmp_path / "lines.txt", "--method", "of_a_file",
        "--methods-from", file, "--format", "json", "--out", tmp_path / "maps",
    ]  # fmt: skip
    assert run(*command)[0] == 0
    assert "2 already there" in run(*command)[1]
    file.write_text(OWN.format(share=0.25))
    code, _, errors = run(*command)
    assert code == 2
    assert "older code of the method" in errors


def test_an_installed_package_brings_methods(tmp_path: Path) -> None:
    (tmp_path / "brought.py").write_text(OWN.format(share=1))
    facts = tmp_path / "brought-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[whyformer.methods]\na = brought\nb = absent\n")
    code = f"""
import sys, warnings
sys.path.insert(0, {str(tmp_path)!r})
import whyformer
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert "of_a_file" in whyformer.methods() and "rollout" in whyformer.methods()
print([str(warning.message) for warning in caught])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("cannot be used") == 1
    assert "'absent'" in done.stdout


def stable_with(**rules: Any) -> Preset:
    stable = PRESETS["stable"]
    return Preset("mine", replace(stable.attribution, **rules), stable.lrp)


def test_a_preset_is_asked_for_by_its_name(run: Run) -> None:
    whyformer.register_preset(stable_with(product=PRESETS["stable"].lrp.product))
    model, inputs = next(case for case in CASES if case.name == "ViT").make()
    recording = whyformer.Explainer(model).record(inputs)
    before = recording.explain(0).relevance
    mine = recording.explain(0, preset="mine").relevance
    assert not torch.allclose(before, mine, rtol=1e-3)
    assert torch.equal(mine, whyformer.Explainer(model)(inputs, 0, preset="mine").relevance)
    assert torch.equal(before, recording.explain(0).relevance)
    assert run("explain", "a joyless film", "--preset", "mine")[0] == 0


def test_built_in_presets_are_taken() -> None:
    with pytest.raises(whyformer.InputError, match="'paper' is a preset of whyformer"):
        whyformer.register_preset(replace(stable_with(), name="paper"))
    assert PRESETS["paper"].attribution != PRESETS["stable"].attribution


def test_changed_rules_are_another_setting() -> None:
    def whole(op: Any, relevance: Any, divide: Any) -> Any:
        return PRESETS["stable"].lrp.product(op, relevance, divide)

    whyformer.register_preset(stable_with())
    before = rules_of("mine")
    whyformer.register_preset(stable_with(product=whole))
    assert rules_of("mine") != before
    assert rules_of("stable") == {}
