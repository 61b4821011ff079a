"""Results as people and programs read them: a table on the screen, Markdown, CSV, LaTeX, JSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.evaluation.estimates import Estimate
from whyformer.evaluation.task import Figures
from whyformer.files import write_whole

#: where less is better
LESS = ("positive_", "other")


@dataclass(frozen=True)
class Table:
    """One benchmark's figures: a row a method, a column a setting."""

    name: str
    figures: Figures

    @property
    def settings(self) -> list[str]:
        return list(dict.fromkeys(s for row in self.figures.values() for s in row))

    def is_best(self, method: str, setting: str) -> bool:
        column = [row[setting].value for row in self.figures.values() if setting in row]
        best = min(column) if setting.startswith(LESS) else max(column)
        return self.figures[method][setting].value == best

    def rows(self, best: str, plain: str = "{}", missing: str = "-") -> list[list[str]]:
        """Cells with the interval's half width; ``best`` and ``plain`` are format strings."""
        rows = []
        for method, found in self.figures.items():
            cells = [method]
            for setting in self.settings:
                if setting not in found:
                    cells.append(missing)
                    continue
                form = best if self.is_best(method, setting) else plain
                cells.append(form.format(shown(found[setting])))
            rows.append(cells)
        return rows

    def text(self) -> str:
        heading = ["method", *self.settings]
        rows = [heading, *self.rows("{} *", "{}  ")]
        widths = [max(len(row[i]) for row in rows) for i in range(len(heading))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def markdown(self) -> str:
        heading = ["method", *self.settings]
        lines = [heading, ["---"] * len(heading), *self.rows("**{}**")]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def latex(self) -> str:
        """A booktabs table with the best in bold."""
        heading = ["method", *self.settings]
        rows = self.rows(r"\textbf{{{}}}", missing="--")
        body = "\n".join(_latex_row(row) for row in rows)
        return (
            f"\\begin{{tabular}}{{l{'r' * len(self.settings)}}}\n\\toprule\n{_latex_row(heading)}\n"
            f"\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
        )

    def csv(self) -> str:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["benchmark", "method", "setting", "value", "low", "high", "n"])
        for method, found in self.figures.items():
            for setting, e in found.items():
                writer.writerow([self.name, method, setting, e.value, e.low, e.high, e.n])
        return buffer.getvalue()


def shown(estimate: Estimate) -> str:
    return f"{estimate.value:.1f} ±{(estimate.high - estimate.low) / 2:.1f}"


def save_results(table: Table, facts: dict[str, Any], folder: Path) -> None:
    """`results.json` with everything, and the table in the formats that papers and pages use."""
    figures = {
        method: {setting: estimate.as_dict() for setting, estimate in found.items()}
        for method, found in table.figures.items()
    }
    results = {**facts, table.name: figures}
    write_whole(folder / "results.json", json.dumps(results, indent=1) + "\n")
    write_whole(folder / "table.md", table.markdown())
    write_whole(folder / "table.csv", table.csv())
    write_whole(folder / "table.tex", table.latex())


def _latex_row(cells: list[str]) -> str:
    escaped = [cell.replace("_", r"\_").replace("±", r"$\pm$") for cell in cells]
    return " & ".join(escaped) + r" \\"
