"""The table of all methods on the results' page, out of the page's other tables."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import whyformer

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS))

from glance import COLUMNS, PHOTOS, glance  # noqa: E402

PAGE = DOCS / "results.md"


def block(name: str, columns: str, *rows: str) -> str:
    head = f"| method | {columns} |\n| --- |{' ---: |' * (columns.count('|') + 1)}"
    return "\n".join([f"<!-- tables: {name} -->", head, *rows, "<!-- end -->", ""])


PHOTO_COLUMNS = "positive_predicted | negative_predicted"
MADE_UP = "".join(
    [
        block("in-best", PHOTO_COLUMNS, "| `a` | 12.0 ±1.1 ~ | **50.0 ±2.0** |",
              "| `b` | **11.0 ±1.0** | 49.0 ±2.0 |"),
        block("in-patches", PHOTO_COLUMNS, "| `b` | 13.0 ±1.0 | - |"),
        block("pets", "pixel_accuracy | miou | mAP | cost", "| `a` | 80.0 | 60.0 | 70.0 | 2.0 |",
              "| `b` | 81.0 | 60.0 | 69.0 | 3.1 |", "| `lost` | 99.0 | 99.0 | 99.0 | 1.0 |"),
        block("movies-tail", "10 | 40 | 80", "| `a` | 8.0 | 20.0 | 30.0 |",
              "| `b` | 7.0 | 20.0 | 31.0 |"),
    ]
)  # fmt: skip


def rows(table: str) -> dict[str, list[str]]:
    lines = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    return {line[0].strip().strip("`"): [cell.strip() for cell in line[1:]] for line in lines}


def test_figures_are_the_page_s_own_and_the_best_comes_first() -> None:
    """The run with all maps at the same grain goes first; who lacks a figure is left out."""
    found = rows(glance(MADE_UP))
    assert list(found) == ["a", "b"]
    assert (
        found["a"] == "**12.0** **50.0** 80.0 **60.0** **70.0** **8.0** **20.0** 30.0 2.0".split()
    )
    assert found["b"] == "13.0 49.0 **81.0** **60.0** 69.0 7.0 **20.0** **31.0** 3.1".split()


def test_the_page_s_table_is_made_of_its_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = re.search(r"<!-- glance -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert shown is not None
    assert shown[1] == glance(page)
    assert set(rows(shown[1])) <= set(whyformer.methods())
    assert {"witness", "transformer_attribution", "rollout", "bt_token"} <= set(rows(shown[1]))


@pytest.mark.parametrize("run", sorted({run for column in COLUMNS for run in column.runs}))
def test_every_run_that_is_read_is_in_the_page(run: str) -> None:
    assert f"<!-- tables: {run} -->" in PAGE.read_text(encoding="utf-8")
    assert run.startswith("in") is (run in PHOTOS)
