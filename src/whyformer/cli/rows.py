"""The rows of a data set as inputs: read as they come, so that none is kept."""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.cli.results import Entry
from whyformer.data_sets import (
    HUB,
    USUAL,
    columns_of,
    described,
    load,
    optional,
    read_row,
    stored_image,
    usual_of,
)
from whyformer.errors import InputError, first_line
from whyformer.words import shorten

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline

#: columns that may hold the true class
LABELS = ("label", "labels", "fine_label")


class Rows:
    """A split of a data set: streamed from the hub or a table, mapped from a saved folder.

    A row is called by its number, counted from 0 as ``datasets`` does, and by its image's file
    name where it has one.
    """

    def __init__(self, given: str, options: argparse.Namespace) -> None:
        self._datasets = optional("datasets", f"the data set {given}")
        self._given, self._options = given.removeprefix(HUB), options
        self._spare_inputs(Path(self._given))
        rows = load(self._datasets, given, options.split, stream=True, download=not options.offline)
        self._rows, self._features = rows, rows.features or self._guessed(rows)
        self._split = str(rows.split or options.split or "all")

    def _spare_inputs(self, path: Path) -> None:
        out = self._options.out
        if out is not None and Path(out).resolve() in (path.resolve(), path.resolve().parent):
            raise InputError(f"{out} holds the inputs; choose another folder for the results")

    def _guessed(self, rows: Any) -> Any:
        """Columns that only the first row tells, as of a stream of JSON or CSV."""
        try:
            return self._datasets.Dataset.from_list(list(rows.take(1))).features
        except Exception as error:
            raise InputError(f"{self._given} cannot be read: {first_line(error)}") from error

    def about(self, why: Pipeline | None) -> str:
        """What tells these inputs from those of another data set."""
        return f"{self._given}, {self._split}, {self._column(why)[0]}"

    def _column(self, why: Pipeline | None) -> tuple[str, str]:
        """The column that is explained, and its kind: what the model reads, images before texts."""
        if why is not None and why.takes not in USUAL:
            raise InputError(f"rows are images or texts, and {why.name} reads {why.takes}s")
        asked = self._options.column
        wanted = [kind for kind in USUAL if why is None or why.takes == kind]
        for kind in wanted:
            found = columns_of(self._features, kind)
            fitting = [asked] if asked in found else usual_of(found, kind) or found
            if asked in (None, *fitting) and len(fitting) == 1:
                return fitting[0], kind
        one = f"column {asked!r}" if asked else "single column"
        raise InputError(
            f"{self._given} has no {one} of {' or '.join(f'{kind}s' for kind in wanted)}; choose "
            f"with --column; it has {described(self._features)}"
        )

    def count(self) -> int | None:
        """How many there are, where that is known before they are read."""
        known: int | None = None
        if isinstance(self._rows, self._datasets.Dataset):
            known = len(self._rows)
        elif self._split in (self._rows.info.splits or {}):
            known = self._rows.info.splits[self._split].num_examples
        limit = self._options.limit
        return min(known, limit or known) if known else None

    def share(self, why: Pipeline | None, rank: int, size: int) -> Iterator[Entry]:
        """Every ``size``-th row from the ``rank``-th on, as an input."""
        column, kind = self._column(why)
        label = next((name for name in LABELS if name in self._features), column)
        names = getattr(self._features[label], "names", None)
        rows = self._rows.select_columns(list(dict.fromkeys((column, label))))
        if kind == "image":
            rows = rows.cast_column(column, self._datasets.Image(decode=False))
        for number, row in self._numbered(rows, rank, size):
            true = row[label] if names else None
            named = names[true] if names and true is not None and 0 <= true < len(names) else None
            yield entry_of(number, row[column], named)

    def _numbered(self, rows: Any, rank: int, size: int) -> Iterator[tuple[int, Any]]:
        if isinstance(rows, self._datasets.Dataset):
            for number in range(len(rows))[: self._options.limit][rank::size]:
                yield number, read_row(rows, number)
            return
        try:
            yield from islice(enumerate(rows), rank, self._options.limit, size)
        except Exception as error:  # damaged tables and lost connections raise many things
            raise InputError(f"{self._given} cannot be read on: {first_line(error)}") from error


def entry_of(number: int, cell: Any, label: str | None) -> Entry:
    """A cell as an input; what is wrong with it is said when its turn comes."""
    row = f"{number:07d}"
    if isinstance(cell, str) and cell.strip():
        return Entry(shorten(cell), row, digest(cell.encode("utf-8", "replace")), row, cell, label)
    try:
        if not isinstance(cell, dict):
            raise InputError("the row is empty")
        stored = stored_image(cell)
        content = stored if isinstance(stored, bytes) else stored.read_bytes()
    except (InputError, OSError) as error:
        wrong = InputError(f"row {number}: {first_line(error)}")
        return Entry(f"row {number}", row, "unreadable", row, wrong=wrong)
    file = Path(cell["path"] or "").name
    stem = re.sub(r"[^\w.-]+", "_", Path(file).stem)[:80]
    name = f"{row}-{stem}" if stem else row
    return Entry(file or f"row {number}", name, digest(content), file or row, content, label)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
