"""Maps and words as a piece of HTML, for notebooks: no script, nothing from outside."""

from __future__ import annotations

from dataclasses import replace
from html import escape

from whyformer.render.colour import hexadecimal
from whyformer.render.document import png_data, wav_data
from whyformer.render.panels import panels
from whyformer.render.prose import Marked, heading, marked_words, side_by_side
from whyformer.render.sheet import Sheet

PAPER = "background:#fff;color:#202124;padding:12px;border-radius:8px;line-height:1.8"


def html_fragment(sheet: Sheet, pieces: bool = False) -> str:
    """Views as they show in a notebook's cell, on white in dark themes as well."""
    notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in sheet.notes)
    body = "".join(part_html(part, pieces) for part in sheet.parts)
    return f'<div style="{PAPER}">{body}{notes}</div>'


def part_html(sheet: Sheet, pieces: bool) -> str:
    """One input of the model."""
    if sheet.image is not None:
        picture = png_data(panels(replace(sheet, notes=[])))
        names = ", ".join(score.name for score in sheet.asked) or "every class"
        drawn = f'<img style="max-width:100%" alt="maps for {escape(names)}" src="{picture}">'
        heard = "" if sheet.sound is None else f'<audio controls src="{wav_data(sheet.sound)}">'
        return drawn + (f"{heard}</audio>" if heard else "")
    rows = []
    for views in side_by_side(sheet):
        columns = "".join(
            f'<div style="flex:1 1 20em"><strong>{escape(heading(sheet, view))}</strong>'
            f'<div style="white-space:pre-wrap">{words_html(marked_words(sheet, view, pieces))}'
            "</div></div>"
            for view in views
        )
        rows.append(f'<div style="display:flex;gap:2em;flex-wrap:wrap">{columns}</div>')
    return "".join(rows)


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
