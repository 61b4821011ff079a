"""Maps and words as a piece of HTML, for notebooks: no script, nothing from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from whyformer.render.document import png_data, wav_data
from whyformer.render.figure import UNITS_AN_INCH
from whyformer.render.look import USUAL
from whyformer.render.panels import panels
from whyformer.render.prose import heading, marked_words, side_by_side, view_colours
from whyformer.render.scaling import ends, scaled
from whyformer.render.sheet import Sheet, View
from whyformer.render.templates import fill


def html_fragment(sheet: Sheet, pieces: bool = False) -> str:
    """Views as they show in a notebook's cell."""
    parts = [part_of(part, pieces) for part in sheet.parts]
    return fill("maps.html", parts=parts, notes=sheet.notes)


def part_of(sheet: Sheet, pieces: bool) -> dict[str, Any]:
    """One input of the model, as the template wants it."""
    if sheet.image is not None:
        drawn = panels(replace(sheet, notes=[]))
        return {
            "picture": png_data(drawn),
            "width": round(drawn.width * UNITS_AN_INCH / USUAL.dpi),
            "names": ", ".join(score.name for score in sheet.asked) or "every class",
            "sound": None if sheet.sound is None else wav_data(sheet.sound),
            "rows": [],
        }
    sheet = scaled(sheet, False, pieces)
    rows = [[view_of(sheet, view, pieces) for view in row] for row in side_by_side(sheet)]
    return {"picture": None, "sound": None, "rows": rows}


def view_of(sheet: Sheet, view: View, pieces: bool) -> dict[str, Any]:
    low, high = ends(view)
    steps = np.linspace(-1 if view.signed else 0, 1, 9)
    return {
        "heading": heading(sheet, view),
        "low": f"against {low}" if view.signed else low,
        "high": f"{high} for" if view.signed else high,
        "colours": list(view_colours(sheet, view).of(steps)),
        "words": marked_words(sheet, view, pieces),
    }
