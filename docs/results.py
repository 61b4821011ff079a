"""Put measured tables and plots into docs/results.md: `make results RUNS=runs`.

The page's text is written by hand. Between `<!-- tables: NAME -->` and `<!-- end -->` stand the
tables of the run in RUNS/NAME, and `results/NAME.PLOT.svg` are its plots; the page's own commands
make the runs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from whyformer.files import write_whole

PAGE = Path(__file__).with_name("results.md")
TABLES = re.compile(r"(<!-- tables: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
PLOT = re.compile(r"\]\((results/(\w[\w-]*)\.(\S+)\.svg)\)")


def main(runs: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    page = TABLES.sub(lambda found: found[1] + tables(runs / found[2]) + found[3], page)
    write_whole(PAGE, page)
    for place, run, plot in PLOT.findall(page):
        write_whole(PAGE.parent / place, (runs / run / "plots" / f"{plot}.svg").read_bytes())


def tables(run: Path) -> str:
    """What the run's own Markdown says, under the page's headings."""
    shown = (run / "table.md").read_text(encoding="utf-8")
    return re.sub(r"^## (.*)$", r"*\1*", shown, flags=re.MULTILINE).strip() + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
