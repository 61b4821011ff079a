"""Inputs of many that go through the model together, as many as the memory holds."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

import torch

from whyformer.cli.asked import load_for
from whyformer.cli.explaining import explain_one, lay_out, question
from whyformer.cli.inputs import CliInput, beside, held_input, read_input
from whyformer.cli.results import Entry
from whyformer.cli.writing import as_prompt
from whyformer.errors import InputError
from whyformer.memory import Crew, crew_for
from whyformer.methods import get_method
from whyformer.models.images import ImagePipeline, Photo

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline
    from whyformer.render.sheet import Sheet

Found = tuple[Entry, "Sheet | InputError"]


@dataclass(frozen=True)
class Read:
    """An input with its model; a photo where others of its size can go with it."""

    entry: Entry
    given: CliInput
    why: Pipeline
    photo: Photo | None

    def goes_with(self, other: Read) -> bool:
        if self.photo is None or other.photo is None:
            return False
        return self.why is other.why and self.photo.pixels.shape == other.photo.pixels.shape


#: what goes through the model together, or an input that cannot be read
Group = list[Read] | tuple[Entry, InputError]


class Together:
    """Explains inputs in their order; neighbours of one size go through the model together.

    Each gets what it would get alone. ``rows``: what the results are drawn from has a row for
    every token. ``after``: how many inputs wait behind the one that is explained at most, where
    that is known. ``forks``: processes may yet be forked.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        why: Pipeline | None,
        rows: bool,
        after: Callable[[], int | None],
        forks: bool,
    ) -> None:
        self._options, self._rows, self._after, self.forks = options, rows, after, forks
        self._loaded = {why.takes: why} if why is not None else {}
        self._loading = Lock()
        #: the first photo goes alone, and tells how much memory one takes
        self.crew = Crew(1)
        self._measured = False

    def read(self, entry: Entry) -> Read:
        """All that can be done without the model's forward, by any thread."""
        options = self._options
        if entry.wrong is not None:
            raise entry.wrong
        if entry.content is None:
            given = read_input(entry.source, options)
        else:
            given = held_input(entry.source, entry.content, options)
        with self._loading:
            if given.kind not in self._loaded:
                self._loaded[given.kind] = load_for(options, given.kind)
        why = self._loaded[given.kind]
        photo = None
        if isinstance(why, ImagePipeline) and why.together:
            beside(why, options)
            photo = why.photo(as_prompt(why, given, options))
        return Read(entry, given, why, photo)

    def explain(self, ready: Iterable[tuple[Entry, Callable[[], Read]]]) -> Iterator[Found]:
        """A sheet for each input, or what is wrong with it; each comes with what reads it."""
        for group in self._groups(ready):
            yield from self._explain(group)

    def _groups(self, ready: Iterable[tuple[Entry, Callable[[], Read]]]) -> Iterator[Group]:
        """Neighbours that go together, as many as may; what cannot be read stands alone."""
        few: list[Read] = []
        for entry, get in ready:
            try:
                read = get()
            except InputError as error:
                yield entry, error
                continue
            if few and not (len(few) < self.crew.together and few[-1].goes_with(read)):
                yield few
                few = []
            few.append(read)
        if few:
            yield few

    def _explain(self, group: Group) -> list[Found]:
        """What fails together is tried in halves, so that one bad input, or no room, is no harm."""
        if isinstance(group, tuple):
            return [group]
        try:
            sheets = self._sheets(group)
        except (InputError, torch.OutOfMemoryError) as error:
            if len(group) > 1:
                half = len(group) // 2
                if isinstance(error, torch.OutOfMemoryError):
                    self.crew = replace(self.crew, together=half)
                return self._explain(group[:half]) + self._explain(group[half:])
            if not isinstance(error, InputError):
                raise
            return [(group[0].entry, error)]
        return [(read.entry, sheet) for read, sheet in zip(group, sheets, strict=True)]

    def _sheets(self, few: list[Read]) -> list[Sheet]:
        why, options = few[0].why, self._options
        photos = [read.photo for read in few if read.photo is not None]
        if not photos or not isinstance(why, ImagePipeline):
            return [explain_one(why, few[0].given, options)]
        method = get_method(options.method or why.usual)
        recorded = why.record_photos(photos, remember=False, maps=method.maps or self._rows)
        if not self._measured:
            # what counts its forwards draws bars, or draws from torch's one generator
            abreast = self.forks and method.built_in and not method.progress(True)
            self.crew = crew_for(recorded.bytes, recorded.logits.device, self._after(), abreast)
            self._measured = True
        asked, named = question(recorded, options)
        found = recorded.explain_each(*asked, **named, matrix=self._rows)
        return [
            lay_out(one, why, read.given, options) for one, read in zip(found, few, strict=True)
        ]
