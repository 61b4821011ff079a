"""A folder of results as one page and one table: `index.html` and `results.csv`.

Both are made from the records of its inputs, which hold all that they tell: see `records`. Beside
what `record_of` keeps, a record has the input's ``file``, its ``result`` in the folder, and where
it is known the ``true`` class.
"""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from whyformer import __version__
from whyformer.files import whole_file, write_whole
from whyformer.render.averages import MOST_CLASSES, Averages
from whyformer.render.records import Record
from whyformer.render.report import page_html
from whyformer.render.sheet import ClassScore
from whyformer.words import shorten

PAGE, TABLE = "index.html", "results.csv"
#: words of a text that its card shows; pictures, and cards, that the page holds
MOST_WORDS, MOST_PICTURES, MOST_CARDS = 60, 5000, 20_000

MEAN_MAPS = (
    "The mean of the maps of all images that were explained for a class, of two at least: each "
    "counts on its own colour scale, and the mean is drawn on its own, too."
)
MEAN_WORDS = (
    "The share of a text's relevance that fell on a word: its mean over the texts that were "
    "explained for a class, two at least, and hold the word; words of several texts stand first."
)


def write_gallery(
    folder: Path, read: Callable[[], Iterable[Record]], colours: str | None = None
) -> None:
    """Write the page and the table; without records there is nothing to write.

    The records are read twice, the second time for the table, whose columns are known by then: so
    that no more of them is in memory than the page holds.
    """
    averages = Averages(colours)
    cards: list[dict[str, Any]] = []
    count = 0
    columns: dict[str, None] = {}
    models: dict[str, None] = {}
    for record in read():
        averages.add(record)
        if len(cards) < MOST_CARDS:
            cards.append(card(record, len(cards) < MOST_PICTURES))
        count += 1
        columns |= dict.fromkeys(dict(row(record)))
        models |= dict.fromkeys((record["model"], record["method"]))
    if not cards:
        return
    notes = []
    if count > MOST_CARDS:
        notes.append(f"the first {MOST_CARDS} of {count} inputs are here; {TABLE} has them all")
    if len(cards) > MOST_PICTURES:
        notes.append(f"only the first {MOST_PICTURES} have a picture on this page")
    if len(averages.known) > MOST_CLASSES:
        notes.append(f"only the {MOST_CLASSES} classes with the most inputs have means")
    document = {
        "whyformer": __version__,
        "title": folder.resolve().name,
        "facts": list(models),
        "table": TABLE,
        "notes": notes,
        "cards": cards,
        "classes": averages.entries(),
        "sentences": {"map": MEAN_MAPS, "words": MEAN_WORDS},
    }
    styles, scripts = ["viewer.css", "gallery.css"], ["tools.js", "gallery.js"]
    write_whole(folder / PAGE, page_html(document, styles, scripts, "whyformerGallery"))
    columns |= {"result": columns.pop("result")}
    write_table(folder / TABLE, list(columns), map(row, read()))


def card(record: Record, pictured: bool) -> dict[str, Any]:
    """What the page tells of one input."""
    first = record["views"][0]
    entry: dict[str, Any] = {
        "file": record["file"],
        "href": "./" + quote(os.fsencode(record["result"])),
        "predicted": named(record["predicted"]),
        "true": named(record["true"]),
        "right": is_right(record),
        "asked": named(first["asked"]),
        "strongest": shorten(first["strongest"]),
    }
    if "words" in first:
        words = first["words"]
        largest = max((abs(score or 0) for _, _, score in words), default=0) or 1
        shown = [[gap, text, round((score or 0) / largest, 3)] for gap, text, score in words]
        entry |= {"words": shown[:MOST_WORDS], "more": len(words) > MOST_WORDS}
        entry |= {"signed": first["signed"], "text": record["text"]}
    elif pictured:
        entry["thumbnail"] = record["thumbnail"]
    return entry


def named(score: dict[str, Any] | None) -> dict[str, Any] | None:
    """A class as it is shown: the first of its label's synonyms."""
    return score and {**score, "name": ClassScore(**score).name}


def is_right(record: Record) -> bool | None:
    """Whether the model predicts the true class, where both are known."""
    best, true = record["predicted"], record["true"]
    return best["index"] == true["index"] if best and true else None


def row(record: Record) -> Iterator[tuple[str, Any]]:
    """An input's cells by their column; further classes that were asked have a number behind."""
    true, right = record["true"], is_right(record)
    yield "file", record["file"]
    if "text" in record:
        yield "text", record["text"]
    yield from cells("predicted", record["predicted"])
    yield "true", true["label"] if true else ""
    yield "right", "" if right is None else right
    for number, view in enumerate(record["views"], 1):
        behind = f"_{number}" if number > 1 else ""
        yield from cells("asked", view["asked"], behind)
        yield f"strongest{behind}", view["strongest"]
    yield "result", record["result"]


def cells(name: str, score: dict[str, Any] | None, behind: str = "") -> Iterator[tuple[str, Any]]:
    told = score or {"label": "", "probability": None, "logit": None}
    yield name + behind, told["label"]
    for number in ("probability", "logit"):
        yield f"{name}_{number}{behind}", "" if told[number] is None else f"{told[number]:.6g}"


def write_table(path: Path, columns: list[str], rows: Iterable[Iterable[tuple[str, Any]]]) -> None:
    with whole_file(path) as file:
        lines = codecs.getwriter("utf-8")(file, "replace")
        writer = csv.DictWriter(lines, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(dict, rows))
