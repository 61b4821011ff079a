"""Results as people read them: tables for the screen, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from whyformer.evaluation.report.results import Result
from whyformer.evaluation.tasks.task import Measure

LEGEND = (
    "± half the 95 % bootstrap interval; {best} the best of its column, ~ not significantly "
    "different from the best (paired permutation test, p >= 0.05, corrected for all pairs of the "
    "column)"
)
PUBLISHED = "in brackets: the paper's figures (ViT-B/16, all images of the data set)"
COST = "cost: the time of an explanation in forwards of the model, median"
FEW = "fewer than 20 samples: the intervals are too narrow"

LATEX = str.maketrans({"±": r"$\pm$", **{sign: f"\\{sign}" for sign in "_&%#$"}})


@dataclass(frozen=True)
class Table:
    """Some of a benchmark's figures: a row a method, a column a measure."""

    title: str
    result: Result
    measures: list[Measure]

    @property
    def heading(self) -> list[str]:
        cost = ["cost"] if self.result.cost else []
        return ["method", *(measure.column for measure in self.measures), *cost]

    def rows(
        self, best: str, as_good: str, plain: str = "{}", missing: str = "-"
    ) -> list[list[str]]:
        """Cells with the interval's half width; the arguments are format strings."""
        marks = {m: (self.result.best(m), self.result.as_good(m)) for m in self.measures}
        rows = []
        for method in self.result.methods:
            cells = [method]
            for measure in self.measures:
                if method not in self.result.having(measure):
                    cells.append(missing)
                    continue
                winner, others = marks[measure]
                form = best if method == winner else as_good if method in others else plain
                cells.append(form.format(self._figure(method, measure)))
            if self.result.cost:
                cost = self.result.cost.get(method)
                cells.append(missing if cost is None else f"{cost:.1f}")
            rows.append(cells)
        return rows

    def _figure(self, method: str, measure: Measure) -> str:
        estimate = self.result.estimates[method, measure]
        shown = f"{estimate.value:.1f} ±{(estimate.high - estimate.low) / 2:.1f}"
        known = self.result.published.get((method, measure))
        return shown if known is None else f"{shown} [{known:.2f}]"

    def text(self) -> str:
        rows = [self.heading, *self.rows("{} *", "{} ~", "{}  ")]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.title, *lines])

    def markdown(self) -> str:
        lines = [self.heading, ["---", *["---:"] * (len(self.heading) - 1)]]
        lines += [[f"`{row[0]}`", *row[1:]] for row in self.rows("**{}**", "{} ~")]
        return f"{self.title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def latex(self) -> str:
        """A booktabs table; the best in bold, what is not significantly different underlined."""
        rows = self.rows(r"\textbf{{{}}}", r"\underline{{{}}}", missing="--")
        body = "\n".join(_latex_row(row) for row in rows)
        return (
            f"% {self.title}\n\\begin{{tabular}}{{l{'r' * (len(self.heading) - 1)}}}\n\\toprule\n"
            f"{_latex_row(self.heading)}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
        )


def tables_of(result: Result) -> list[Table]:
    titles = dict.fromkeys(m.table for m in result.measures if m.table is not None)
    tables = []
    for title in titles:
        shown = [m for m in result.measures if m.table == title and result.having(m)]
        if shown:
            tables.append(Table(title, result, shown))
    return tables


def to_text(result: Result) -> str:
    return "\n\n".join([result.summary, *(table.text() for table in tables_of(result))])


def to_markdown(results: Sequence[Result]) -> str:
    parts = []
    for result in results:
        parts += [f"## {result.summary}", *(table.markdown() for table in tables_of(result))]
    return "\n\n".join([*parts, legend(results, "**bold**")]) + "\n"


def to_latex(results: Sequence[Result]) -> str:
    return "\n".join(table.latex() for result in results for table in tables_of(result))


def to_csv(results: Sequence[Result]) -> str:
    """Every figure, those that no table shows as well; a cost has no interval."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["benchmark", "method", "measure", "value", "low", "high", "n"])
    for result in results:
        for (method, measure), e in result.estimates.items():
            path = "/".join(measure.path)
            writer.writerow(
                [result.benchmark, method, path, e.value, e.low, e.high, result.samples]
            )
        for method, cost in result.cost.items():
            writer.writerow([result.benchmark, method, "cost", cost, "", "", result.samples])
    return buffer.getvalue()


def legend(results: Sequence[Result], best: str = "*") -> str:
    """What the signs in the tables mean; ``best`` is how they mark the best."""
    parts = [LEGEND.format(best=best)]
    if any(result.cost for result in results):
        parts.append(COST)
    if any(result.published for result in results):
        parts.append(PUBLISHED)
    if any(result.samples < 20 for result in results):
        parts.append(FEW)
    return "; ".join(parts)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cell.translate(LATEX) for cell in cells) + r" \\"
