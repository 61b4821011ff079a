"""Maps and words for the terminal: half-blocks and coloured words, or signs without colour."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from dataclasses import replace
from typing import TextIO

import numpy as np
from PIL import Image

from whyformer.render.colour import in_terminal
from whyformer.render.image import overlay, stretched
from whyformer.render.look import USUAL, Look
from whyformer.render.palettes import Colours, check_colours, map_colours
from whyformer.render.prose import heading, marked_words, view_colours
from whyformer.render.scaling import ends, scaled
from whyformer.render.sheet import Sheet, View
from whyformer.words import printable

RESET = "\033[0m"
COLOURED = re.compile(r"\033\[[0-9;]*m")
SHADES = " .:-=+*#%@"
#: the same for what spoke against
SHADES_AGAINST = " ,;iojxOX&"
#: words listed with their scores where there is no colour
LISTED = 12


def has_colour(stream: TextIO | None = None) -> bool:
    """Whether to use colour: a terminal, unless NO_COLOR is set; FORCE_COLOR insists."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stream = stream or sys.stdout
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def to_terminal(
    sheet: Sheet,
    *,
    colour: bool,
    width: int = 80,
    pieces: bool = False,
    look: Look = USUAL,
) -> str:
    """All views, with the classes that the model considered."""
    check_colours(look.colours, sheet)
    sheet = cleaned(sheet)
    parts = [_classes(sheet)]
    for part in sheet.parts:
        part = scaled(part, look.shared, pieces)
        if part.image is not None:
            parts += _image_views(part, colour, width, look)
        else:
            parts += [_text_view(part, view, colour, pieces, look) for view in part.views]
    parts += [f"note: {note}" for note in sheet.notes]
    return "\n\n".join(parts)


def cleaned(sheet: Sheet) -> Sheet:
    """The sheet without control characters in any text that came from outside."""
    return replace(
        sheet,
        title=printable(sheet.title),
        model=printable(sheet.model),
        notes=[printable(note) for note in sheet.notes],
        classes=[replace(score, label=printable(score.label)) for score in sheet.classes],
        views=[
            replace(v, asked=v.asked and replace(v.asked, label=printable(v.asked.label)))
            for v in sheet.views
        ],
        pieces=[
            replace(piece, text=printable(piece.text), gap=printable(piece.gap))
            for piece in sheet.pieces or []
        ],
        others=tuple(cleaned(other) for other in sheet.others),
    )


def cells(text: str) -> int:
    """How many columns a text takes: wide letters take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def padded(text: str, width: int) -> str:
    """Cut or filled up to a width in columns."""
    while cells(text) > width:
        text = text[:-1]
    return text + " " * (width - cells(text))


def half_blocks(picture: Image.Image) -> str:
    """Each character shows two pixels, one above the other."""
    pixels = np.asarray(picture.convert("RGB"))
    lines = []
    for upper, lower in zip(pixels[::2], pixels[1::2], strict=False):
        cells = [
            f"\033[38;2;{a[0]};{a[1]};{a[2]};48;2;{b[0]};{b[1]};{b[2]}m▀"
            for a, b in zip(upper.tolist(), lower.tolist(), strict=True)
        ]
        lines.append("".join(cells) + RESET)
    return "\n".join(lines)


def _classes(sheet: Sheet) -> str:
    name = "value" if sheet.problem == "regression" else "says"
    shown = ", ".join(f"{score.name} {score.number}" for score in sheet.classes)
    start = f"{sheet.title}: " if sheet.title else ""
    return f"{start}{sheet.model or 'the model'} {name}: {shown}"


def _image_views(sheet: Sheet, colour: bool, width: int, look: Look) -> list[str]:
    assert sheet.image is not None
    side = max(16, min(40, (width - 2) // 2))
    parts = []
    for method in sheet.methods:
        views = [view for view in sheet.views if view.method == method]
        for start in range(0, len(views), max(1, (width + 2) // (side + 2))):
            few = views[start : start + max(1, (width + 2) // (side + 2))]
            blocks = [_image_block(sheet, view, colour, side, look) for view in few]
            titles = [padded(heading(sheet, view), side) for view in few]
            legends = [
                _legend(view, colour, map_colours(view.signed, look.colours), side) for view in few
            ]
            lines = ["  ".join(titles).rstrip()]
            lines += ["  ".join(row) for row in zip(*blocks, strict=True)]
            gaps = [side - cells(COLOURED.sub("", legend)) for legend in legends]
            filled = [legend + " " * gap for legend, gap in zip(legends, gaps, strict=True)]
            lines.append("  ".join(filled).rstrip())
            parts.append("\n".join(lines))
    return parts


def _image_block(sheet: Sheet, view: View, colour: bool, side: int, look: Look) -> list[str]:
    assert sheet.image is not None
    height = max(2, round(side * sheet.image.height / sheet.image.width / 2) * 2)
    if colour:
        large = sheet.image.resize((side * 4, height * 4), Image.Resampling.BICUBIC)
        colours = map_colours(view.signed, look.colours)
        drawn = overlay(
            large, view.share, opacity=look.opacity, smooth=look.smooth, contour=look.contour,
            colours=colours, frames=sheet.frames,
        )  # fmt: skip
        small = drawn.resize((side, height), Image.Resampling.BOX)
        return half_blocks(small).split("\n")
    heat = stretched(view.share, (side, height // 2), frames=sheet.frames)
    return ["".join(_sign(value) for value in row) for row in heat.tolist()]


def _sign(strength: float) -> str:
    shades = SHADES_AGAINST if strength < 0 else SHADES
    return shades[round(abs(strength) * (len(shades) - 1))]


def _legend(view: View, colour: bool, colours: Colours, room: int = 80) -> str:
    """What the colours or signs mean: a ramp between its ends, or the end alone."""
    low, high = ends(view)
    if not colour:
        ramp = f"{SHADES_AGAINST[:0:-1]} {SHADES[1:]}" if view.signed else SHADES
    else:
        steps = np.linspace(-1 if view.signed else 0, 1, 11)
        ramp = "".join(in_terminal(" ", paint, paint) for paint in colours.of(steps).tolist())
    legend = f"{low} {ramp} {high}"
    return legend if cells(COLOURED.sub("", legend)) <= room else f"max {high}"


def _text_view(sheet: Sheet, view: View, colour: bool, pieces: bool, look: Look) -> str:
    words = marked_words(sheet, view, pieces, look.colours)
    title = heading(sheet, view)
    if colour:
        body = "".join(
            word.gap
            + (in_terminal(word.text, word.ground, word.letter) if word.shown else word.text)
            for word in words
        )
        legend = _legend(view, colour, view_colours(sheet, view, look.colours))
        return f"{title}\n{legend}\n{body.strip()}"
    strongest = sorted(words, key=lambda word: -abs(word.strength))[:LISTED]
    width = min(40, max((cells(word.text) for word in strongest), default=0))
    lines = [f"{title}  (# for, - against)" if view.signed else title]
    for word in strongest:
        bar = ("-" if word.strength < 0 else "#") * round(20 * abs(word.strength))
        lines.append(f"  {padded(word.text, width)}  {word.score:9.2e}  {bar}".rstrip())
    return "\n".join(lines)
