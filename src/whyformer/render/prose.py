"""Words with their strengths and colours: what every rendering of a text is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from whyformer.render.colour import PLAIN, Stops, ink, readable_on
from whyformer.render.palettes import Colours, word_colours
from whyformer.render.scaling import scaled, units_of
from whyformer.render.sheet import Sheet, View

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class StyledWord:
    """A word or a piece as it is shown: ``gap`` is what stands before it."""

    text: str
    gap: str
    score: float
    strength: float
    ground: Colour
    letter: Colour

    @property
    def shown(self) -> bool:
        """Whether its ground can be told from paper."""
        return abs(self.strength) > 0.02


def marked_words(
    sheet: Sheet, view: View, pieces: bool = False, colours: str | None = None
) -> list[StyledWord]:
    """A view's words in reading order, or its pieces; a word is as strong as its strongest.

    Behind an unknown word stands what the model read; of an unknown piece that alone is shown.
    """
    if view.limits is None:
        (view,) = scaled(replace(sheet, views=[view]), False, pieces).views
    painted = view_colours(sheet, view, colours)
    units = units_of(sheet, pieces)
    scores = np.array([unit.score(view) for unit in units])
    told = np.array([0.0 if unit.silent else 1.0 for unit in units]) * scores
    strengths = (told / (view.span[1] or 1.0)).clip(-1.0 if view.signed else 0.0, 1.0)
    found = zip(units, scores.tolist(), strengths.tolist(), painted.of(strengths), strict=True)
    return [
        StyledWord(unit.text, unit.gap, score, strength, _triple(ground), _letter(_triple(ground)))
        for unit, score, strength, ground in found
    ]


def view_colours(sheet: Sheet, view: View, colours: str | None = None) -> Colours:
    """A text's colours: its class's, or for and against."""
    return word_colours(view.signed, class_ink(sheet, view), colours)


def class_ink(sheet: Sheet, view: View) -> Stops:
    """Every class that was asked about has a colour, by their order; no class is grey."""
    if view.asked is None:
        return PLAIN
    return ink(sorted(score.index for score in sheet.asked).index(view.asked.index))


def heading(sheet: Sheet, view: View) -> str:
    """What a text's view is called: the class, and the method where there are several."""
    asked = f"why {view.asked.name}?  {view.asked.number}" if view.asked else "every class"
    asked = f"{sheet.part}: {asked}" if sheet.part else asked
    return f"{view.method}: {asked}" if len(sheet.methods) > 1 or not view.asked else asked


def side_by_side(sheet: Sheet) -> Iterator[list[View]]:
    """Views a row at a time: the classes of one method stand next to each other."""
    for method in sheet.methods:
        yield [view for view in sheet.views if view.method == method]


@cache
def _letter(ground: Colour) -> Colour:
    return readable_on(np.array(ground))


def _triple(colour: np.ndarray) -> Colour:
    return int(colour[0]), int(colour[1]), int(colour[2])
