"""Which scores the colours span: each view's own, or the same for all that a method says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from whyformer.render.sheet import Sheet, View
from whyformer.words import strongest


@dataclass(frozen=True)
class Unit:
    """A word, or a piece, as it is coloured: ``places`` are its pieces; a ``silent`` one is not."""

    text: str
    gap: str
    places: tuple[int, ...]
    silent: bool = False

    def score(self, view: View) -> float:
        return strongest(view.scores, self.places)


def units_of(sheet: Sheet, pieces: bool) -> list[Unit]:
    """A text's words in reading order, or its pieces; special tokens are left out."""
    sinks = {i for i, piece in enumerate(sheet.pieces or []) if piece.sink}
    if not pieces:
        return [
            Unit(word.marked, word.gap, word.pieces, not sinks.isdisjoint(word.pieces))
            for word in sheet.words
        ]
    return [
        Unit(piece.unknown or piece.text, piece.gap, (i,), i in sinks)
        for i, piece in enumerate(sheet.pieces or [])
        if piece.word is not None
    ]


def scaled(sheet: Sheet, shared: bool, pieces: bool = False) -> Sheet:
    """The sheet's views with the limits of their colours."""
    views = sheet.views
    if sheet.image is None:
        units = units_of(sheet, pieces)
        views = [replace(view, limits=_text_limits(view, units)) for view in views]
    return replace(sheet, views=one_scale(views) if shared else views)


def one_scale(views: Sequence[View]) -> list[View]:
    """Views with one scale a method: its scores compare with one another, others' do not."""
    found = []
    for view in views:
        kin = [other for other in views if other.method == view.method]
        signed = any(other.signed for other in kin)
        high = max(other.span[1] for other in kin)
        low = -high if signed else min(other.span[0] for other in kin)
        found.append(replace(view, limits=(low, high), signed=signed))
    return found


def ends(view: View) -> tuple[str, str]:
    """The ends of a view's colours; ">" where scores of an image lie beyond."""
    low, high = view.span
    most = float((np.abs(view.scores) if view.signed else view.scores).max(initial=0))
    beyond = view.scores.ndim == 2 and most > high
    lowest = f"{low:.2g}"
    if beyond:
        return f"< {lowest}" if view.signed else lowest, f"> {high:.2g}"
    return lowest, f"{high:.2g}"


def _text_limits(view: View, units: Sequence[Unit]) -> tuple[float, float]:
    if view.limits is not None or view.top is not None:
        return view.span
    scores = [unit.score(view) for unit in units if not unit.silent]
    high = max((abs(score) if view.signed else score for score in scores), default=0.0)
    high = max(high, 0.0)
    return -high if view.signed else 0.0, high
