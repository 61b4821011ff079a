"""``{{ methods }}`` in a page becomes the table of all methods, from what each says of itself."""

from __future__ import annotations

from typing import Any

from whyformer.methods import Method, methods

MARK = "{{ methods }}"
HEAD = (
    "| method | paper | cost | class-specific | signed | complete | works on |\n"
    "|---|---|---|---|---|---|---|"
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace(MARK, table()) if MARK in markdown else markdown


def table() -> str:
    described = [m for m in methods().values() if m.built_in and m.facts is not None]
    return "\n".join([HEAD, *(row(method) for method in described)])


def row(method: Method) -> str:
    facts = method.facts
    assert facts is not None
    cells = (
        f"`{method.name}`",
        f"{facts.paper} {facts.year}",
        facts.cost,
        *("yes" if said else "" for said in (method.class_specific, facts.signed, facts.complete)),
        facts.works,
    )
    return f"| {' | '.join(cells)} |"
