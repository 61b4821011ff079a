"""Words with their strengths and colours: what every rendering of a text is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from whyformer.render.colour import PLAIN, Stops, coloured, ink, readable_on
from whyformer.render.sheet import Sheet, View


@dataclass(frozen=True)
class Marked:
    """A word or a piece as it is shown: ``gap`` is what stands before it."""

    text: str
    gap: str
    score: float
    strength: float
    ground: tuple[int, int, int]
    letter: tuple[int, int, int]

    @property
    def shown(self) -> bool:
        """Whether its ground can be told from paper."""
        return self.strength > 0.02


def marked_words(sheet: Sheet, view: View, pieces: bool = False) -> list[Marked]:
    """A view's words in reading order, or its pieces; a word is as strong as its strongest.

    Behind an unknown word stands what the model read; of an unknown piece that alone is shown.
    """
    stops = class_ink(sheet, view)
    units: list[tuple[str, str, tuple[int, ...]]]
    if pieces:
        units = [
            (piece.unknown or piece.text, piece.gap, (i,))
            for i, piece in enumerate(sheet.pieces or [])
            if piece.word is not None
        ]
    else:
        units = [(word.marked, word.gap, word.pieces) for word in sheet.words]
    scores = [max(float(view.scores[i]) for i in places) for _, _, places in units]
    sinks = {i for i, piece in enumerate(sheet.pieces or []) if piece.sink}
    told = [
        0.0 if sinks.intersection(places) else max(score, 0.0)
        for score, (_, _, places) in zip(scores, units, strict=True)
    ]
    highest = view.top or max(told, default=0.0) or 1.0
    marked = []
    for (text, gap, _), score, amount in zip(units, scores, told, strict=True):
        strength = amount / highest
        ground = coloured(np.asarray(strength), stops)
        marked.append(Marked(text, gap, score, strength, _triple(ground), readable_on(ground)))
    return marked


def class_ink(sheet: Sheet, view: View) -> Stops:
    """Every class that was asked about has a colour of its own; no class is grey."""
    if view.asked is None:
        return PLAIN
    return ink([score.index for score in sheet.asked].index(view.asked.index))


def heading(sheet: Sheet, view: View) -> str:
    """What a text's view is called: the class, and the method where there are several."""
    asked = f"why {view.asked.name}?  {view.asked.number}" if view.asked else "every class"
    asked = f"{sheet.part}: {asked}" if sheet.part else asked
    return f"{view.method}: {asked}" if len(sheet.methods) > 1 or not view.asked else asked


def side_by_side(sheet: Sheet) -> Iterator[list[View]]:
    """Views a row at a time: the classes of one method stand next to each other."""
    for method in sheet.methods:
        yield [view for view in sheet.views if view.method == method]


def _triple(colour: np.ndarray) -> tuple[int, int, int]:
    return int(colour[0]), int(colour[1]), int(colour[2])
