"""A folder of results: what they were made with and from, their gallery, and no mixing of runs."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer import __version__
from whyformer.cli.asked import check_drawn, look_of
from whyformer.cli.kept import Index, Kept
from whyformer.errors import InputError, OutputError
from whyformer.files import FILE, lock, what_is
from whyformer.methods import DEFAULT_METHOD, get_method
from whyformer.run_folder import RunFolder
from whyformer.sharing import wait

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline
    from whyformer.render.sheet import Sheet

SETTINGS, LOCK = ".whyformer-settings", ".whyformer-lock"
#: a process appends to a file of its own, and all of them are read
RECORDS = ".whyformer-records-{}.jsonl"
ADVICE = "choose another folder, or --overwrite"


@dataclass(frozen=True)
class Entry:
    """An input of many: what to read, its result's name without the ending, and what it was.

    ``file`` is what people are shown: below the folder that was given, or a line's number. What
    lies in no file of its own has its ``content`` here. ``label``: the name of its true class.
    ``wrong``: why it cannot be read.
    """

    source: str
    name: str
    state: str
    file: str
    content: str | bytes | None = None
    label: str | None = None
    wrong: InputError | None = None


class Results:
    """A folder of results: the settings that they were made with, and a record of each input.

    ``entries``: the inputs, where they are known before the first is read. ``data``: what tells
    the data set that they are rows of.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        entries: Sequence[Entry],
        why: Pipeline | None,
        rank: int = 0,
        data: str | None = None,
    ) -> None:
        from whyformer.render.gallery import PAGE
        from whyformer.render.parquet import require_pyarrow
        from whyformer.render.saving import WRITERS, writer

        self.folder, self.rank = Path(options.out), rank
        self.ending = ("png" if options.format is None else options.format).lstrip(".")
        writer(Path(f"result.{self.ending}"))
        check_drawn(options, f".{self.ending.lower()}")
        if what_is(self.folder) == FILE or self.folder.suffix.lower() in WRITERS:
            raise InputError(f"{self.folder} is a file's name; many inputs go into a folder")
        self.gallery = self.folder / PAGE
        self._look, self._pieces = look_of(options), options.pieces
        self._parquet = options.parquet
        if self._parquet:
            require_pyarrow()
        self._settings = {
            "whyformer": __version__,
            "model": options.model,
            "weights": why and why.weights,
            "preparation": why and why.preparation,
            "target": options.target,
            "rather than": options.rather_than,
            "position": options.position,
            "chat": options.chat,
            "method": get_method(options.method or (why.usual if why else DEFAULT_METHOD)).name,
            "preset": options.preset,
            "precision": options.precision,
            **own_code(options),
            "pair": options.pair,
            "text": options.text,
            "similar_to": options.similar_to,
            "pieces": options.pieces,
            "look": vars(self._look),
            "data": data,
        }
        self._open: ExitStack | None = None
        self._overwrite = options.overwrite
        self._run = RunFolder(self.folder, SETTINGS, RECORDS, what="results made", advice=ADVICE)
        if not self._overwrite:
            self._run.check(self._settings)
        self._kept = self._read_kept()
        self._outdated: list[Path] = []
        if self._overwrite:
            self._outdated = [self.path(entry) for entry in entries if entry.name in self._kept]
            self._kept = Index()
        self._spare_others(entries)

    def _read_kept(self) -> Index:
        """The newest record of each input, whichever process wrote it."""
        found = Index()
        lines = self._run.read("name", "state", skip_damaged=self._overwrite)
        for path, start, record in lines:
            kept = Kept(path, start, record["state"], record.get("time", 0))
            found.add(record["name"], kept)
        return found

    def _spare_others(self, entries: Sequence[Entry]) -> None:
        """No result may take the place of an input, nor of a file that is no result."""
        from whyformer.render import parquet
        from whyformer.render.gallery import TABLE

        inputs = {Path(entry.source).resolve() for entry in entries if entry.content is None}
        mine = self._overwrite or self._run.marked
        known = {self.gallery: mine, self.folder / TABLE: mine}
        if self._parquet:
            known[self.folder / parquet.TABLE] = mine
        known |= {self.path(entry): entry.name in self._kept for entry in entries}
        for result, ours in known.items():
            if result.resolve() in inputs:
                raise InputError(f"{result} is an input; choose another folder for the results")
            self._spare(result, ours)

    def _spare(self, result: Path, ours: bool) -> None:
        if not self._overwrite and not ours and what_is(result) is not None:
            raise InputError(f"{result} exists and is no result of these settings; {ADVICE}")

    def path(self, entry: Entry) -> Path:
        return self.folder / f"{entry.name}.{self.ending}"

    def has(self, entry: Entry) -> bool:
        """Whether there is a result of this very input."""
        kept = self._kept.get(entry.name)
        self._spare(self.path(entry), kept is not None)
        return kept is not None and kept.state == entry.state and what_is(self.path(entry)) == FILE

    def begin(self) -> None:
        """With the first result: old ones that it replaces go, and the folder is marked anew.

        From then on the folder is this run's alone, as far as the system has locks. Of several
        processes the first does so, while the others wait.
        """
        with ExitStack() as opened:
            if self.rank == 0:
                opened.enter_context(lock(self.folder / LOCK))
                self._clear()
                self._run.write_mark(self._settings)
            wait()
            self._records = opened.enter_context(self._run.append(self.rank))
            self._open = opened.pop_all()

    def go_on_as(self, rank: int) -> None:
        """From now on as another process of the same run, which was forked from this one."""
        self.rank, self._open = rank, None

    def _clear(self) -> None:
        if self._overwrite:
            self._outdated += self._run.record_files()
        else:
            self._run.check(self._settings)
        for path in self._outdated:
            path.unlink(missing_ok=True)

    def keep(self, entry: Entry, sheet: Sheet) -> Path:
        """Record an input, and say where its result goes.

        The record comes first: whatever ends the process, no result is there without its record.
        """
        from whyformer.render.records import record_of

        if self._open is None:
            self.begin()
        result = self.path(entry)
        try:
            result.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"cannot replace {result}: {error.strerror}") from error
        self._records.add(
            {
                "name": entry.name,
                "state": entry.state,
                "time": time.time_ns(),
                "file": entry.file,
                "result": str(result.relative_to(self.folder)),
                "true": true_class(entry, sheet),
                **record_of(sheet, self._look, self._pieces),
            }
        )
        return result

    def close(self) -> None:
        """Write the gallery of all results in the folder, also of those that were there before."""
        from whyformer.render import parquet
        from whyformer.render.gallery import write_gallery

        wanted = [self.gallery, *([self.folder / parquet.TABLE] if self._parquet else [])]
        with self._open or ExitStack():
            if self.rank > 0 or (self._open is None and all(map(what_is, wanted))):
                return
            if self._open is not None:
                self._overwrite, self._kept = False, self._read_kept()
            write_gallery(self.folder, self._read, self._look.colours)
            if self._parquet:
                parquet.write_parquet(self.folder, self._read())

    def _read(self) -> Iterator[dict[str, Any]]:
        for kept in self._kept:
            with kept.path.open("rb") as file:
                file.seek(kept.start)
                record: dict[str, Any] = json.loads(file.readline())
            if what_is(self.folder / record["result"]) == FILE:
                yield record


def true_class(entry: Entry, sheet: Sheet) -> dict[str, Any] | None:
    """The class that a row has, or that an image's folder is named by."""
    name = entry.label or Path(entry.file).parent.name
    if not name or not sheet.labels:
        return None
    from whyformer.evaluation.data.classes import class_of_folder
    from whyformer.render.document import class_entry
    from whyformer.render.sheet import ClassScore

    index = class_of_folder(name, tuple(sheet.labels))
    if index is None:
        return None
    return class_entry(ClassScore(index, sheet.labels[index], None, None))


def own_code(options: argparse.Namespace) -> dict[str, str]:
    """Settings for a method or a preset of one's own: results of older code are not its results."""
    from whyformer.provenance import digest_of, rules_of

    name = options.method or DEFAULT_METHOD
    method = {} if get_method(name).built_in else {"code": digest_of(name)}
    return {**method, **rules_of(options.preset)}
