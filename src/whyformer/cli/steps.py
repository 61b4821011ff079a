"""What is done with each of many inputs: it is read, explained and written."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from whyformer.cli.explaining import present
from whyformer.cli.results import Entry, Results
from whyformer.cli.together import Together
from whyformer.errors import InputError, WhyformerError
from whyformer.forked import in_forks
from whyformer.overlapping import WriteBehind, read_ahead

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline
    from whyformer.render.sheet import Sheet

#: kinds of results that hold a row for every token
WITH_ROWS = ("html", "npz")

#: an input, and what is wrong with it
Told = tuple[Entry, InputError | None]
Group = list[Entry]


class Steps:
    """Reads, explains and writes inputs.

    ``count``: how many there are, where that is known. ``alone``: no other process of a group has
    its part of the cores.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        why: Pipeline | None,
        results: Results | None,
        count: int | None,
        alone: bool,
    ) -> None:
        rows = results is None or results.ending in WITH_ROWS
        self._work = Together(options, why, rows, count)
        self._options, self._results, self._alone = options, results, alone

    def run(self, entries: Iterator[Entry]) -> Generator[Told, None, None]:
        """Each in its turn.

        The first that can be explained tells what one takes; what follows is shared by processes
        where that pays. They begin before this one has threads.
        """
        first = []
        for entry in entries:
            first += self._one_by_one([entry])
            if first[-1][1] is None:
                break
        return self._go_on(first, self._by_forks(entries) or self._beside(entries))

    def _go_on(
        self, first: list[Told], following: Generator[Told, None, None]
    ) -> Generator[Told, None, None]:
        with closing(following):
            yield from chain(first, following)

    def _one_by_one(self, group: Group) -> list[Told]:
        """One step after another."""
        found = self._work.explain((entry, partial(self._work.read, entry)) for entry in group)
        told: list[Told] = []
        for entry, sheet in found:
            if isinstance(sheet, InputError):
                told.append((entry, sheet))
            else:
                self._write(entry, sheet)
                told.append((entry, None))
        return told

    def _beside(self, entries: Iterable[Entry]) -> Generator[Told, None, None]:
        """Threads read what comes next, and write what is done."""
        with closing(read_ahead(entries, self._work.read)) as ready, WriteBehind() as behind:
            for entry, sheet in self._work.explain((entry, each.result) for entry, each in ready):
                if isinstance(sheet, InputError):
                    yield entry, sheet
                else:
                    behind.add(partial(self._write, entry, sheet))
                    yield entry, None

    def _by_forks(self, entries: Iterator[Entry]) -> Generator[Told, None, None] | None:
        """Each by a process that does all steps, a group of neighbours at a time."""
        crew = self._work.crew
        if crew.processes == 1 or self._results is None or self._options.json or not self._alone:
            return None
        groups = iter(lambda: list(islice(entries, crew.together)), [])
        return _told(in_forks(groups, self._one_by_one, crew.processes, self._results.go_on_as))

    def _write(self, entry: Entry, sheet: Sheet) -> None:
        one = argparse.Namespace(**vars(self._options))
        if self._results is not None:
            one.out, one.quiet = str(self._results.keep(entry, sheet)), True
        present(sheet, one)


def _told(
    begun: Generator[tuple[Group, Future[list[Told]]], None, None],
) -> Generator[Told, None, None]:
    with closing(begun):
        try:
            for _, told in begun:
                yield from told.result()
        except BrokenProcessPool as error:
            raise WhyformerError(
                "a process that explained was killed, perhaps for want of memory; what was done is "
                "kept: start the same command again, with --threads 1 if it happens again"
            ) from error
