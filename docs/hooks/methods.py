"""``{{ methods }}`` in a page becomes the table of all methods, from what each says of itself."""

from __future__ import annotations

from typing import Any

from whyformer.methods import Method, absent_methods, methods

MARK = "{{ methods }}"
HEAD = (
    "| method | paper | cost | reads | class-specific | signed | complete | works on |\n"
    "|---|---|---|---|---|---|---|---|"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace(MARK, table()) if MARK in markdown else markdown


def table() -> str:
    known = {**methods(), **absent_methods()}
    described = [m for _, m in sorted(known.items()) if m.built_in and m.facts is not None]
    return "\n".join([HEAD, *(row(method) for method in described)])


def row(method: Method) -> str:
    facts = method.facts
    assert facts is not None
    cells = (
        f"`{method.name}`",
        f"{facts.paper} {facts.year}",
        facts.cost,
        facts.reads + (f"; the extra `{method.needs}`" if method.needs else ""),
        *("yes" if said else "" for said in (method.class_specific, facts.signed, facts.complete)),
        facts.works,
    )
    return f"| {' | '.join(cells)} |"
