"""Make the tutorials' notebooks anew: `make notebooks`, or `python docs/notebooks.py [FOLDER]`.

A page's prose and python blocks become cells; what a block prints and shows is the cell's own
output, not the page's copy of it. Shell blocks stay prose: they are for a terminal. Pictures are
kept as JPEG alone, since code hosts strip the colours from an explanation's HTML.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image

from tutorial import TUTORIALS, parts
from whyformer.files import write_whole

FOLDER = Path(__file__).parents[1] / "examples"
#: a link within docs/, seen from a tutorial
RELATIVE = re.compile(r"\]\((?!\w+:|#)([^)]+)\)")
INTRODUCTION = "*This notebook is made from [docs/tutorials/{name}.md]({link}).*"


def notebook(name: str) -> nbformat.NotebookNode:
    """The page as a notebook that has not run."""
    page = TUTORIALS[name].read_text(encoding="utf-8")
    cells = []
    for number, part in enumerate(parts(page)):
        if isinstance(part, str):
            cell = new_markdown_cell(relinked(part))
        else:
            cell = new_code_cell(part.source)
        cell["id"] = f"{name}-{number}"
        cells.append(cell)
    link = f"../docs/tutorials/{name}.md"
    cells[0]["source"] += "\n\n" + INTRODUCTION.format(name=name, link=link)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return new_notebook(cells=cells, metadata=metadata)


def relinked(prose: str) -> str:
    """Links as they lead from the notebooks' folder; another tutorial is another notebook."""

    def moved(link: re.Match[str]) -> str:
        target = link[1]
        if Path(target).stem in TUTORIALS and "/" not in target:
            return f"]({Path(target).stem}.ipynb)"
        return f"](../docs/{target.removeprefix('../')})"

    return RELATIVE.sub(moved, prose)


def execute(made: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Run in a folder and keep the outputs alone: no times, no versions, no warnings."""
    plain = made["metadata"]["language_info"]
    NotebookClient(
        made,
        timeout=300,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    made["metadata"]["language_info"] = plain
    for cell in made["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["outputs"] = [out for out in cell["outputs"] if out.get("name") != "stderr"]
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output["data"] = {
                    "image/jpeg": as_jpeg(output["data"]["image/png"]),
                    "text/plain": "(a picture)",
                }
                output["metadata"] = {}
    return made


def as_jpeg(png: str) -> str:
    buffer = io.BytesIO()
    picture = Image.open(io.BytesIO(b64decode(png))).convert("RGB")
    picture.save(buffer, "JPEG", quality=88, subsampling=0, optimize=True)
    return b64encode(buffer.getvalue()).decode()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name in TUTORIALS:
        with tempfile.TemporaryDirectory() as scratch:
            made = execute(notebook(name), Path(scratch))
        text = nbformat.writes(made) + "\n"
        write_whole(folder / f"{name}.ipynb", text)
        print(f"{name}.ipynb: {len(made['cells'])} cells, {len(text) // 1024} kB")


if __name__ == "__main__":
    main()
