"""Results as one self-contained web page: facts, tables, plots, tests, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from whyformer.evaluation.report.results import Result
from whyformer.evaluation.report.tables import legend, tables_of
from whyformer.render.document import data_address
from whyformer.render.templates import fill

Plots = Mapping[str, Mapping[str, bytes]]

#: failures that the page lists; the records have all
MOST_FAILURES = 50


def to_page(results: Sequence[Result], plots: Sequence[Plots]) -> str:
    return fill(
        "results.html",
        title=f"whyformer evaluation: {', '.join(result.benchmark for result in results)}",
        style=(files("whyformer.evaluation.report") / "page.css").read_text(encoding="utf-8"),
        results=[section(result, drawn) for result, drawn in zip(results, plots, strict=True)],
        legend=legend(results),
        most=MOST_FAILURES,
    )


def section(result: Result, plots: Plots) -> dict[str, Any]:
    facts = {**result.facts, "samples": result.samples, "failed": len(result.failures)}
    drawn = {name: data_address("image/svg+xml", kinds["svg"]) for name, kinds in plots.items()}
    return {
        "benchmark": result.benchmark,
        "facts": facts,
        "tables": tables_of(result),
        "plots": drawn,
        "comparisons": result.comparisons,
        "failures": result.failures,
    }
