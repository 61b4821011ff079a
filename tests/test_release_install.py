"""The wheel in an empty environment, offline and away from the checkout: what a user gets."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from PIL import Image

import whyformer
from releasing import NOWHERE, ROOT, Installed, pip, without_network
from tuning import sentences, write_tsv

pytestmark = pytest.mark.release

ENDINGS = ("png", "svg", "html", "json", "npz", "tex")
#: several commands in one process, because loading torch takes longer than any of them
COMMANDS = """
import sys
from whyformer.cli import main
for ending in {endings}:
    assert main([*sys.argv[1:], f"out.{{ending}}"]) == 0, ending
"""
TOUR = (
    "boxes.png", "captions.png", "methods.png", "review.html", "review.png", "scene.html",
    "scene.png", "story.png",
)  # fmt: skip
CLIENT = """
import whyformer
from whyformer.methods.question import Answer, Question


@whyformer.register("mine", "the last block's attention")
def mine(question: Question) -> Answer:
    return question.pool(question.attention[-1].mean(1))


why: whyformer.Pipeline = whyformer.load("demo-text")
explanation: whyformer.Explanation = why("a joyless film", target="negative")
count: int = len(whyformer.methods())
reveal_type(explanation.words())
why("a joyless film", method=3)
"""
#: torch's and transformers' own types take minutes to read, and are not the question
SETTINGS = """
[mypy]
strict = true
[mypy-torch.*,transformers.*]
follow_imports = skip
"""


@pytest.fixture(scope="module")
def tour(installed: Installed) -> Path:
    assert "Try next" in installed.run("whyformer", "demo")
    return installed.away / "demo"


def test_requirements_hold_and_are_the_base_alone(installed: Installed) -> None:
    assert "No broken requirements" in pip(installed.python, "check")
    listed = json.loads(pip(installed.python, "list", "--format", "json"))
    present = {canonicalize_name(entry["name"]) for entry in listed}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert names(project["dependencies"]) <= present
    extras = project["optional-dependencies"]
    del extras["dev"]  # its tools may come with torch or the hub as well
    assert names(chain.from_iterable(extras.values())) & present <= {"whyformer"}


def names(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def test_there_is_no_network(installed: Installed) -> None:
    ask = "import urllib.request as u; u.urlopen('https://pypi.org', timeout=5)"
    assert "URLError" in installed.run("python", "-c", ask, code=1)
    assert without_network() or NOWHERE in installed.surroundings().values()


def test_import_is_light_and_from_the_environment(installed: Installed) -> None:
    ask = "import sys, whyformer; print(whyformer.__file__, 'torch' in sys.modules)"
    file, loaded = installed.run("python", "-c", ask).split()
    assert Path(file).is_relative_to(installed.environment)
    assert loaded == "False"


def test_lists(installed: Installed) -> None:
    said = f"whyformer {whyformer.__version__}\n"
    assert installed.run("whyformer", "--version") == said
    assert installed.run("python", "-m", "whyformer", "--version") == said
    methods = installed.run("whyformer", "methods")
    assert all(name in methods for name in whyformer.methods())
    assert "demo-vision" in installed.run("whyformer", "models")
    assert "positive" in installed.run("whyformer", "classes", "demo-text")


def test_demo(tour: Path) -> None:
    assert sorted(path.name for path in tour.iterdir()) == sorted(TOUR)
    for name in TOUR:
        (check_png if name.endswith("png") else check_html)(tour / name)


@pytest.mark.parametrize("command", ["explain", "compare"])
@pytest.mark.parametrize("given", ["scene.png", "a joyless film"])
def test_every_ending(installed: Installed, tour: Path, command: str, given: str) -> None:
    if given == "scene.png":
        given = str(tour / given)
    script = COMMANDS.format(endings=ENDINGS)
    installed.run("python", "-c", script, command, given, "--out")
    for ending in ENDINGS:
        path = installed.away / f"out.{ending}"
        CHECKS[ending](path)
        path.unlink()


def check_png(path: Path) -> None:
    with Image.open(path) as image:
        image.verify()
        assert image.format == "PNG"


def check_html(path: Path) -> None:
    assert path.read_text("utf-8").lower().startswith("<!doctype html>")


def check_npz(path: Path) -> None:
    with np.load(path) as stored:
        assert all(stored[name].size for name in stored.files)
        assert stored.files


def check_tex(path: Path) -> None:
    assert "\\begin{document}" in path.read_text("utf-8")


CHECKS = {
    "png": check_png,
    "svg": ElementTree.parse,
    "html": check_html,
    "json": lambda path: json.loads(path.read_text("utf-8"))["views"][0],
    "npz": check_npz,
    "tex": check_tex,
}


def test_evaluation_needs_no_extra(installed: Installed) -> None:
    arguments = ("pointing", "--limit", 2, "--methods", "rollout", "--out", "runs")
    said = installed.run("whyformer", "evaluate", *arguments)
    assert "pip install 'whyformer[evaluation]'" in said  # for the plots
    assert {"report.html", "results.json"} <= {p.name for p in (installed.away / "runs").iterdir()}


def test_commands_name_the_extra_they_lack(installed: Installed) -> None:
    write_tsv(installed.away / "reviews.tsv", sentences(20))
    (installed.away / "gtsegs_ijcv.mat").write_bytes(b"\x89HDF\r\n\x1a\n")
    lacking = {
        "serve": ["serve"],
        "evaluation": ["finetune", "-m", "demo-text", "--data", "reviews.tsv", "-o", "tuned"],
        "vision": ["explain", "demo/scene.png", "-m", "timm/vit_tiny_patch16_224"],
    }
    for extra, command in lacking.items():
        said = installed.run("whyformer", *command, code=2)
        assert f"pip install 'whyformer[{extra}]'" in said
        assert "Traceback" not in said
    for data in ("gtsegs_ijcv.mat", "datasets:pets"):
        command = ["evaluate", "segmentation", "--data", data, "--out", "masks"]
        said = installed.run("whyformer", *command, code=2)
        assert "pip install 'whyformer[evaluation]'" in said


def test_types_reach_a_client(installed: Installed) -> None:
    (installed.away / "client.py").write_text(CLIENT)
    (installed.away / "mypy.ini").write_text(SETTINGS)
    command = ["-m", "mypy", "--python-executable", str(installed.python)]
    done = subprocess.run(
        [sys.executable, *command, "client.py"],
        cwd=installed.away, env=installed.surroundings(), capture_output=True, text=True,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("client.py")]
    assert len(lines) == 2, done.stdout + done.stderr
    assert 'Revealed type is "list[list[tuple[str, float]]]"' in lines[0].replace("builtins.", "")
    assert 'Argument "method" to "__call__" of "Pipeline" has incompatible type "int"' in lines[1]
