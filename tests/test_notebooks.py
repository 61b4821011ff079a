"""The notebooks are the tutorials, and they run."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import notebooks  # noqa: E402
from tutorial import TUTORIALS, Code, parts  # noqa: E402


def stored(name: str) -> nbformat.NotebookNode:
    path = ROOT / "examples" / f"{name}.ipynb"
    assert path.stat().st_size < 1_000_000
    return nbformat.read(path, as_version=4)


def sources(made: nbformat.NotebookNode) -> list[tuple[str, str, str]]:
    return [(cell["id"], cell["cell_type"], cell["source"]) for cell in made["cells"]]


def printed(made: nbformat.NotebookNode) -> list[str]:
    """What each code cell wrote to standard output."""
    return [
        "".join(out["text"] for out in cell["outputs"] if out.get("name") == "stdout")
        for cell in made["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_stored_notebook_is_the_page(name: str) -> None:
    assert sources(stored(name)) == sources(notebooks.notebook(name)), "run `make notebooks`"


@pytest.mark.parametrize("name", TUTORIALS)
def test_stored_outputs_are_what_the_page_says(name: str) -> None:
    made = stored(name)
    nbformat.validate(made)
    said = [part for part in parts(TUTORIALS[name].read_text()) if isinstance(part, Code)]
    cells = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    for code, cell, text in zip(said, cells, printed(made), strict=True):
        assert text.strip() == (code.prints or "").strip()
        pictures = [out for out in cell["outputs"] if "image/jpeg" in out.get("data", {})]
        assert len(pictures) == (code.picture is not None)


@pytest.mark.parametrize("name", TUTORIALS)
def test_links_are_seen_from_the_notebooks_folder(name: str) -> None:
    for _, kind, source in sources(notebooks.notebook(name)):
        if kind == "markdown":
            assert "](../images" not in source
            assert "](../how-to" not in source


@pytest.mark.slow
@pytest.mark.parametrize("name", TUTORIALS)
def test_the_notebook_runs_again(name: str, tmp_path: Path) -> None:
    again = notebooks.execute(notebooks.notebook(name), tmp_path)
    assert printed(again) == printed(stored(name))
