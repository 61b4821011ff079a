"""All methods at a glance: one table of what the tables of docs/results.md say, best first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

#: a run's tables in the page, by its name
RUN = re.compile(r"<!-- tables: (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
#: a figure in a table, without its interval and its marks
FIGURE = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Column:
    """What a column is called here and in a run's table, and the runs that have it.

    Where several runs have a method, the first one's figure is shown.
    """

    title: str
    name: str
    runs: Sequence[str]
    less_is_better: bool = False


PHOTOS = ("in-patches", "in-best", "in-all", "in-more", "in-many", "in")
PETS = ("pets-patches", "pets", "pets-many")
REVIEWS = ("movies-tail", "movies-many", "movies-flow")
COLUMNS = (
    Column("photos: relevant first", "positive_predicted", PHOTOS, less_is_better=True),
    Column("irrelevant first", "negative_predicted", PHOTOS),
    Column("pets: accuracy", "pixel_accuracy", PETS),
    Column("mIoU", "miou", PETS),
    Column("mAP", "mAP", PETS),
    Column("reviews: 10 words", "10", REVIEWS),
    Column("40", "40", REVIEWS),
    Column("80", "80", REVIEWS),
    Column("cost", "cost", PETS[1:], less_is_better=True),
)
QUALITY = COLUMNS[:-1]

Figures = dict[str, float]


def glance(page: str) -> str:
    """The table, for methods that have a figure in every column that measures quality."""
    runs = {name: figures(tables) for name, tables in RUN.findall(page)}
    found = {column: collected(column, runs) for column in COLUMNS}
    methods = set.intersection(*(set(found[column]) for column in QUALITY))
    if not methods:
        empty = [f"{c.title} ({', '.join(c.runs)})" for c in QUALITY if not found[c]]
        raise ValueError(f"no method has a figure in every column; none at all in {empty}")
    best = {column: extreme(column, [found[column][m] for m in methods]) for column in QUALITY}
    lines = [
        f"| method | {' | '.join(column.title for column in COLUMNS)} |",
        f"| --- |{' ---: |' * len(COLUMNS)}",
    ]
    for method in sorted(methods, key=lambda m: (mean_rank(m, methods, found), m)):
        cells = []
        for column in COLUMNS:
            value = found[column].get(method)
            shown = "-" if value is None else f"{value:.1f}"
            first = value is not None and value == best.get(column)
            cells.append(f"**{shown}**" if first else shown)
        lines.append(f"| `{method}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def figures(tables: str) -> dict[str, Figures]:
    """The columns of a run's tables: each method's figure."""
    columns: dict[str, Figures] = {}
    names: list[str] = []
    for line in tables.splitlines():
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if first == "method":
            names = cells
        elif first.startswith("`"):
            for name, cell in zip(names, cells, strict=True):
                if number := FIGURE.search(cell):
                    columns.setdefault(name, {}).setdefault(first.strip("`"), float(number[0]))
    return columns


def collected(column: Column, runs: dict[str, dict[str, Figures]]) -> Figures:
    found: Figures = {}
    for run in reversed(column.runs):
        found |= runs.get(run, {}).get(column.name, {})
    return found


def extreme(column: Column, values: Sequence[float]) -> float:
    return min(values) if column.less_is_better else max(values)


def mean_rank(method: str, methods: set[str], found: dict[Column, Figures]) -> float:
    """Over all columns of quality; of equal figures each has the best rank."""
    ranks = []
    for column in QUALITY:
        mine = found[column][method]
        others = [found[column][other] for other in methods]
        ranks.append(sum(v < mine if column.less_is_better else v > mine for v in others))
    return sum(ranks) / len(ranks)
