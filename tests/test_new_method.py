"""The how-to's own example: a method in one file is in every list, table and page."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from command_line import Run
from pages import ROOT, blocks_of
from whyformer.methods import methods, registry


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """The page's file, as a reader copies it."""
    page = (ROOT / "docs" / "how-to" / "new-method.md").read_text(encoding="utf-8")
    [block] = [block for block in blocks_of(page) if block.title == "my_method.py"]
    path = tmp_path / "my_method.py"
    path.write_text(block.text)
    methods()
    before = dict(registry._METHODS)
    yield path
    registry._METHODS.clear()
    registry._METHODS.update(before)


def test_it_is_listed(run: Run, file: Path) -> None:
    assert "attention_gradient" not in run("methods")[1]
    listed = json.loads(run("methods", "--json", "--methods-from", file)[1])
    [mine] = [method for method in listed if method["name"] == "attention_gradient"]
    assert mine["summary"].startswith("the last block's attention times its gradient")


def test_it_is_compared(run: Run, file: Path, scene: Path, tmp_path: Path) -> None:
    out = tmp_path / "figure.json"
    assert run("compare", scene, "--methods-from", file, "--out", out, "--quiet")[0] == 0
    shown = json.loads(out.read_text())
    names = {view["method"] for view in shown["views"]}
    assert {"attention_gradient", "transformer_attribution", "rollout"} <= names
    assert run("compare", scene, "--methods-from", file, "--out", tmp_path / "f.png")[0] == 0
    with_it = Image.open(tmp_path / "f.png").size
    one = ["--method", "attention_gradient", "--method", "rollout", "--out", tmp_path / "g.png"]
    assert run("compare", scene, "--methods-from", file, *one)[0] == 0
    assert Image.open(tmp_path / "g.png").size[0] < with_it[0]


def test_it_is_evaluated(run: Run, file: Path, tmp_path: Path) -> None:
    command = ["evaluate", "pointing", "--limit", 3, "--methods-from", file, "--quiet"]
    code, output, _ = run(*command, "--out", tmp_path / "run")
    assert code == 0
    rows = {line.split()[0] for line in output.splitlines() if line.strip()}
    assert {"attention_gradient", "transformer_attribution"} <= rows
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "attention_gradient" in report
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert "attention_gradient" in json.dumps(results)


@pytest.mark.slow
def test_it_is_on_the_web_page(browser: Any, file: Path) -> None:
    """In a server of its own process, and a real browser: its button is there, its map is drawn."""
    command = [sys.executable, "-m", "whyformer", "serve", "--port", "0", "--methods-from", file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None
            page = browser.new_page()
            page.goto(address[0])
            page.get_by_role("button", name="All methods").click()
            page.get_by_text("attention_gradient").first.wait_for()
            picture = page.screenshot()
            page.close()
        finally:
            server.terminate()
    assert np.asarray(Image.open(io.BytesIO(picture))).std() > 1
