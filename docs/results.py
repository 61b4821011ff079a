"""Put measured tables and plots into docs/results.md: `make results RUNS=runs`.

The page's text is written by hand. Between `<!-- tables: NAME -->` and `<!-- end -->` stand the
tables of the run in RUNS/NAME, and `results/NAME.PLOT.svg` are its plots; the page's own commands
make the runs. Tables and plots of runs that are not there, or not finished, stay as they are, and
these runs are named. Between `<!-- glance -->` and `<!-- end -->` all methods stand in one table.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from glance import glance
from whyformer.files import write_whole

PAGE = Path(__file__).with_name("results.md")
TABLES = re.compile(r"(<!-- tables: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
GLANCE = re.compile(r"(<!-- glance -->\n).*?(<!-- end -->)", re.DOTALL)
PLOT = re.compile(r"\]\((results/(\w[\w-]*)\.(\S+)\.svg)\)")


def main(runs: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    absent = [run for _, run, _ in TABLES.findall(page) if not (runs / run / "table.md").is_file()]

    def measured(found: re.Match[str]) -> str:
        return found[0] if found[2] in absent else found[1] + tables(runs / found[2]) + found[3]

    page = TABLES.sub(measured, page)
    write_whole(PAGE, GLANCE.sub(lambda found: found[1] + glance(page) + found[2], page))
    for place, run, plot in PLOT.findall(page):
        if run not in absent:
            write_whole(PAGE.parent / place, (runs / run / "plots" / f"{plot}.svg").read_bytes())
    for run in absent:
        print(f"no finished run {runs / run}: its tables stay as they are")


def tables(run: Path) -> str:
    """What the run's own Markdown says, under the page's headings."""
    shown = (run / "table.md").read_text(encoding="utf-8")
    return re.sub(r"^## (.*)$", r"*\1*", shown, flags=re.MULTILINE).strip() + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
