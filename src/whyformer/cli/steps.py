"""What is done with each of many inputs: it is read, explained and written."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from whyformer.cli.explaining import present
from whyformer.cli.results import Entry, Results
from whyformer.cli.together import Together
from whyformer.engine.holes import keep
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

    ``after``: how many inputs wait behind the one that is explained at most, where that is known.
    ``alone``: no other process of a group has its part of the cores.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        why: Pipeline | None,
        results: Results | None,
        after: Callable[[], int | None],
        alone: bool,
    ) -> None:
        rows = results is None or results.ending in WITH_ROWS
        forks = alone and results is not None and not options.json
        self._work = Together(options, why, rows, after, forks)
        self._options, self._results = options, results

    def run(self, entries: Iterator[Entry]) -> Generator[Told, None, None]:
        """Each in its turn.

        The first that can be explained tells what one takes; what follows is shared by processes
        where that pays. They begin before this one has threads.
        """
        for entry in entries:
            ((_, wrong),) = self._one_by_one([entry])
            yield entry, wrong
            if wrong is None:
                break
        with closing(self._by_forks(entries) or self._beside(entries)) as following:
            yield from following

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
        self._work.forks = False
        with closing(read_ahead(entries, self._work.read)) as ready, WriteBehind() as behind:
            for entry, sheet in self._work.explain((entry, each.result) for entry, each in ready):
                if isinstance(sheet, InputError):
                    yield entry, sheet
                else:
                    behind.add(partial(self._write, entry, sheet))
                    yield entry, None

    def _by_forks(self, entries: Iterator[Entry]) -> Generator[Told, None, None] | None:
        """Each by a process that does all steps, a group of neighbours at a time; None if none."""
        crew = self._work.crew
        if crew.processes == 1 or self._results is None:
            return None
        groups = iter(lambda: list(islice(entries, crew.together)), [])
        results = self._results

        def begin(number: int) -> None:
            results.go_on_as(number)
            keep()

        try:
            return _told(in_forks(groups, self._by_name, crew.processes, begin))
        except (OSError, RuntimeError):  # no room for processes, or one did not begin
            return None

    def _by_name(self, group: Group) -> list[tuple[str, InputError | None]]:
        """What of a group goes back to the process that sent it."""
        return [(entry.name, wrong) for entry, wrong in self._one_by_one(group)]

    def _write(self, entry: Entry, sheet: Sheet) -> None:
        one = argparse.Namespace(**vars(self._options))
        if self._results is not None:
            one.out, one.quiet = str(self._results.keep(entry, sheet)), True
        present(sheet, one)


def _told(
    begun: Generator[tuple[Group, Future[list[tuple[str, InputError | None]]]], None, None],
) -> Generator[Told, None, None]:
    with closing(begun):
        try:
            for group, told in begun:
                sent = {entry.name: entry for entry in group}
                yield from ((sent[name], wrong) for name, wrong in told.result())
        except BrokenProcessPool as error:
            raise WhyformerError(
                "a process that explained was killed, perhaps for want of memory; what was done is "
                "kept: start the same command again, with --threads 1 if it happens again"
            ) from error
