"""Results as one self-contained web page: facts, tables, plots, tests, and what failed."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from whyformer.evaluation.report.results import Comparison, Result
from whyformer.evaluation.report.tables import Table, legend, tables_of

Plots = Mapping[str, Mapping[str, bytes]]

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
<p class="quiet">{legend}</p>
</main>
</body>
</html>
"""
#: failures that the page lists; the records have all
MOST_FAILURES = 50


def to_page(results: Sequence[Result], plots: Sequence[Plots]) -> str:
    style = (files("whyformer.evaluation.report") / "page.css").read_text(encoding="utf-8")
    sections = [section(result, drawn) for result, drawn in zip(results, plots, strict=True)]
    names = ", ".join(result.benchmark for result in results)
    return PAGE.format(
        title=escape(f"whyformer evaluation: {names}"),
        style=style,
        body="\n".join(sections),
        legend=escape(legend(results)),
    )


def section(result: Result, plots: Plots) -> str:
    facts = {**result.facts, "samples": result.samples, "failed": len(result.failures)}
    parts = [f"<h2>{escape(result.benchmark)}</h2>", definition_list(facts)]
    parts += [to_html(table) for table in tables_of(result)]
    parts += [picture(name, drawn["svg"]) for name, drawn in plots.items()]
    if result.comparisons:
        parts.append(tests(result.comparisons))
    if result.failures:
        parts.append(failures(result.failures))
    return "<section>" + "\n".join(parts) + "</section>"


def definition_list(facts: Mapping[str, object]) -> str:
    rows = (f"<div><dt>{escape(k)}</dt><dd>{escape(str(v))}</dd></div>" for k, v in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def to_html(table: Table) -> str:
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in table.heading)
    body = ""
    for method, *cells in table.rows("<b>{}</b> *", "{} ~"):
        figures = "".join(f"<td>{cell}</td>" for cell in cells)
        body += f"<tr><th scope=row>{escape(method)}</th>{figures}</tr>"
    return (
        f"<figure><figcaption>{escape(table.title)}</figcaption><div class=wide><table>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></figure>"
    )


def picture(name: str, svg: bytes) -> str:
    data = base64.b64encode(svg).decode("ascii")
    return f'<img alt="{escape(name)}" src="data:image/svg+xml;base64,{data}">'


def tests(comparisons: Sequence[Comparison]) -> str:
    rows = ""
    for c in comparisons:
        d = c.difference
        rows += (
            f"<tr><th scope=row>{escape('/'.join(c.measure.path))}</th><td>{escape(c.best)}</td>"
            f"<td>{escape(c.other)}</td><td>{d.value:+.2f}</td>"
            f"<td>{d.low:+.2f} to {d.high:+.2f}</td><td>{c.p:.3f}</td></tr>"
        )
    return (
        "<details><summary>Tests: the best of each column against the others</summary>"
        "<div class=wide><table><thead><tr><th scope=col>measure</th><th scope=col>best</th>"
        "<th scope=col>other</th><th scope=col>difference</th><th scope=col>95 % interval</th>"
        f"<th scope=col>p (Holm)</th></tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def failures(reasons: Mapping[str, str]) -> str:
    listed = list(reasons.items())[:MOST_FAILURES]
    items = "".join(f"<li><code>{escape(key)}</code>: {escape(why)}</li>" for key, why in listed)
    more = len(reasons) - len(listed)
    rest = f"<p class=quiet>and {more} more, in the records</p>" if more else ""
    return (
        f"<details><summary>{len(reasons)} samples could not be measured</summary>"
        f"<ul>{items}</ul>{rest}</details>"
    )
