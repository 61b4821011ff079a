"""Write what a run, or several together, found: numbers, tables, plots and a page.

`results.json` has, under each benchmark's name, every method's figures in percent, as the paper
prints them. The same tree under ``intervals`` has their 95 % bootstrap intervals, and ``tests`` the
paired comparisons of each column's best with the others; ``published`` has the paper's figures
where model and data are the paper's. ``cost`` has the time of an explanation by each method, in
forwards of the model. ``model``, ``weights``, ``data``, ``preset``, ``methods``,
``versions`` and ``counts`` say what was measured; where several benchmarks are reported together
these stand under ``runs``, by benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from whyformer import __version__
from whyformer.evaluation.report.estimates import Estimate
from whyformer.evaluation.report.page import to_page
from whyformer.evaluation.report.plots import has_plots, plots_of
from whyformer.evaluation.report.results import Result
from whyformer.evaluation.report.tables import to_csv, to_latex, to_markdown
from whyformer.files import write_whole

Tree = dict[str, Any]


def save_report(results: Sequence[Result], folder: Path) -> None:
    """Everything but the plots needs no further package; those come where matplotlib is there."""
    plots = [plots_of(result) if has_plots() else {} for result in results]
    write_whole(folder / "results.json", json.dumps(to_tree(results), indent=1) + "\n")
    write_whole(folder / "table.md", to_markdown(results))
    write_whole(folder / "table.csv", to_csv(results))
    write_whole(folder / "table.tex", to_latex(results))
    for drawn in plots:
        for name, formats in drawn.items():
            for kind, data in formats.items():
                write_whole(folder / "plots" / f"{name}.{kind}", data)
    write_whole(folder / "report.html", to_page(results, plots))


def to_tree(results: Sequence[Result]) -> Tree:
    """What `results.json` holds."""
    tree: Tree = {result.benchmark: figures(result, lambda e: e.value) for result in results}
    tree["intervals"] = {
        result.benchmark: figures(result, lambda e: [e.low, e.high]) for result in results
    }
    if any(result.published for result in results):
        tree["published"] = {result.benchmark: known(result) for result in results}
    if any(result.cost for result in results):
        tree["cost"] = {result.benchmark: result.cost for result in results}
    tree["tests"] = {result.benchmark: tests(result) for result in results}
    if len(results) == 1:
        tree |= facts(results[0])
    else:
        tree["runs"] = {result.benchmark: facts(result) for result in results}
    tree["versions"] = versions()
    return tree


def figures(result: Result, leaf: Callable[[Estimate], Any]) -> Tree:
    """Something of each method's estimates, in the tree of the measures' paths."""
    tree: Tree = {}
    for (method, measure), estimate in result.estimates.items():
        branch = tree.setdefault(method, {})
        for name in measure.path[:-1]:
            branch = branch.setdefault(name, {})
        branch[measure.path[-1]] = leaf(estimate)
    return tree


def known(result: Result) -> Tree:
    """The paper's figures, by method and by the measure's path."""
    tree: Tree = {}
    for (method, measure), figure in result.published.items():
        tree.setdefault(method, {})["/".join(measure.path)] = figure
    return tree


def tests(result: Result) -> list[Tree]:
    return [
        {
            "measure": "/".join(c.measure.path),
            "best": c.best,
            "other": c.other,
            "difference": c.difference.value,
            "interval": [c.difference.low, c.difference.high],
            "p": c.p,
        }
        for c in result.comparisons
    ]


def facts(result: Result) -> Tree:
    counts: Tree = {"samples": result.samples, "failed": len(result.failures)}
    if result.flat:
        counts["flat_maps"] = result.flat
    if result.tied:
        counts["tied_percent"] = result.tied
    return {**result.facts, "methods": result.methods, "counts": counts}


def versions() -> dict[str, str]:
    found = {"whyformer": __version__}
    for package in ("torch", "transformers", "timm", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
