"""Maps and words as a piece of HTML, for notebooks: no script, nothing from outside."""

from __future__ import annotations

from dataclasses import replace
from html import escape

import numpy as np

from whyformer.render.colour import hexadecimal
from whyformer.render.document import png_data, wav_data
from whyformer.render.figure import UNITS_AN_INCH
from whyformer.render.look import Look
from whyformer.render.panels import panels
from whyformer.render.prose import Marked, heading, marked_words, side_by_side, view_colours
from whyformer.render.scaling import ends, scaled
from whyformer.render.sheet import Sheet, View

PAPER = "background:#fff;color:#202124;padding:12px;border-radius:8px;line-height:1.8"


def html_fragment(sheet: Sheet, pieces: bool = False) -> str:
    """Views as they show in a notebook's cell, on white in dark themes as well."""
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in sheet.notes)
    body = "".join(part_html(part, pieces) for part in sheet.parts)
    return f'<div style="{PAPER}">{body}{notes}</div>'


def part_html(sheet: Sheet, pieces: bool) -> str:
    """One input of the model."""
    if sheet.image is not None:
        drawn = panels(replace(sheet, notes=[]))
        wide = round(drawn.width * UNITS_AN_INCH / Look().dpi)
        names = escape(", ".join(score.name for score in sheet.asked) or "every class")
        size = f'style="max-width:100%" width="{wide}"'
        heard = "" if sheet.sound is None else f'<audio controls src="{wav_data(sheet.sound)}">'
        return f'<img {size} alt="maps for {names}" src="{png_data(drawn)}">' + (
            f"{heard}</audio>" if heard else ""
        )
    sheet = scaled(sheet, False, pieces)
    rows = []
    for views in side_by_side(sheet):
        columns = "".join(
            f'<div style="flex:1 1 20em"><strong>{escape(heading(sheet, view))}</strong>'
            f"{_legend(sheet, view)}"
            f'<div style="white-space:pre-wrap">{words_html(marked_words(sheet, view, pieces))}'
            "</div></div>"
            for view in views
        )
        rows.append(f'<div style="display:flex;gap:2em;flex-wrap:wrap">{columns}</div>')
    return "".join(rows)


def _legend(sheet: Sheet, view: View) -> str:
    low, high = ends(view)
    if view.signed:
        low, high = f"against {low}", f"{high} for"
    steps = np.linspace(-1 if view.signed else 0, 1, 9)
    colours = ",".join(hexadecimal(c) for c in view_colours(sheet, view).of(steps))
    ramp = (
        "display:inline-block;width:96px;height:8px;margin:0 6px;"
        f"background:linear-gradient(to right,{colours})"
    )
    return f'<div><small>{low}<span style="{ramp}"></span>{high}</small></div>'


def words_html(words: list[Marked]) -> str:
    parts = []
    for word in words:
        style = ""
        if word.shown:
            style = (
                f' style="background:{hexadecimal(word.ground)};color:{hexadecimal(word.letter)};'
                'border-radius:3px;padding:1px 2px"'
            )
        parts.append(
            f'{escape(word.gap)}<span title="{word.score:.3g}"{style}>{escape(word.text)}</span>'
        )
    return "".join(parts)
