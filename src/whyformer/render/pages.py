"""A text's views as a figure: coloured words in columns, classes next to each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from PIL import Image

from whyformer.render.drawing import raster
from whyformer.render.figure import (
    QUIET,
    Box,
    Figure,
    Picture,
    Writing,
    broken,
    leading,
    reduced,
    wrapped,
)
from whyformer.render.fonts import Face, base_face, font_notes, text_width
from whyformer.render.image import words_bar
from whyformer.render.look import USUAL, Look
from whyformer.render.order import read_order, right_to_left
from whyformer.render.palettes import check_colours
from whyformer.render.prose import StyledWord, heading, marked_words, side_by_side, view_colours
from whyformer.render.scaling import ends, scaled
from whyformer.render.sheet import Sheet, View

MARGIN, GUTTER, COLUMN, NARROWEST = 24, 36, 460, 160
TYPE, LEADING, HEADING, SMALL, NOTE = 17, 28, 16, 11, 13
#: between words, and between what no space divides; how far a box reaches into a space
SPACE, SEAM, REACH = 5, 1, 2
#: a column's most lines; longer texts go on in the next column, up to the most columns
LONG, MOST_COLUMNS = 48, 3
RAMP = 96, 8


@dataclass(frozen=True)
class Placed:
    """A word's place on a line: ``before`` and ``after`` say whether a space is beside it."""

    x: float
    line: int
    word: StyledWord
    width: float
    rtl: bool = False
    before: bool = True
    after: bool = True


def text_picture(sheet: Sheet, pieces: bool = False, look: Look = USUAL) -> Image.Image:
    check_colours(look.colours, sheet)
    return raster(text_figure(sheet, pieces, look), look.dpi)


def text_figure(sheet: Sheet, pieces: bool = False, look: Look = USUAL) -> Figure:
    """A row a method, a column a class; long texts below one another, in columns."""
    sheet = scaled(sheet, look.shared, pieces)
    rows = [[(v, marked_words(sheet, v, pieces, look.colours)) for v in row]
            for row in side_by_side(sheet)]  # fmt: skip
    across = max(len(row) for row in rows)
    columns, width = _columns(across, look)
    lines = lay_out(rows[0][0][1], width)[1]
    if columns < across or lines > LONG:
        rows = [[cell] for row in rows for cell in row]
        wanted = min(MOST_COLUMNS, math.ceil(lines / LONG))
        columns, width = _columns(wanted if look.width is None else max(columns, wanted), look)
    split = columns if len(rows[0]) == 1 and lines > LONG else 1
    figure = Figure(2 * MARGIN + columns * (width + GUTTER) - GUTTER)
    y = float(MARGIN)
    for row in rows:
        below = y
        for column, (view, words) in enumerate(row):
            x = MARGIN + column * (width + GUTTER)
            below = max(below, _view(figure, sheet, view, words, x, y, width, split, look))
        y = below
    said = " ".join([*(word.text for _, words in rows[0] for word in words), *sheet.notes,
                     *(heading(sheet, view) for view in sheet.views)])  # fmt: skip
    for note in [*sheet.notes, *font_notes(said)]:
        y = figure.write(MARGIN, y, wrapped(note, figure.width - 2 * MARGIN, NOTE), NOTE, QUIET)
    figure.height = y + MARGIN
    return reduced(figure, look.reduction)


def _columns(wanted: int, look: Look) -> tuple[int, float]:
    """How many columns there are, and how wide each is."""
    if look.units is None:
        return wanted, COLUMN
    room = look.units - 2 * MARGIN + GUTTER
    columns = max(1, min(wanted, int(room // (NARROWEST + GUTTER))))
    return columns, max(room / columns - GUTTER, NARROWEST / 2)


def _view(
    figure: Figure,
    sheet: Sheet,
    view: View,
    words: list[StyledWord],
    x: float,
    y: float,
    width: float,
    columns: int,
    look: Look,
) -> float:
    """A heading, a scale and the words; where it ends."""
    y = figure.write(x, y, wrapped(heading(sheet, view), width, HEADING), HEADING) + 2
    _legend(figure, sheet, view, x, y, look)
    y += leading(SMALL) + 6
    face = base_face("".join(word.text for word in words))
    placed, lines = lay_out(words, width, face)
    deep = math.ceil(lines / columns)
    spots = [
        (
            x + (spot.line // deep) * (width + GUTTER) + spot.x,
            y + LEADING * (spot.line % deep),
            spot,
        )
        for spot in placed
    ]
    for left, top, spot in spots:
        if spot.word.shown:
            start = left - (REACH if spot.before else 0)
            end = left + spot.width + (REACH if spot.after else 0)
            figure.marks.append(Box(start, top, end - start, TYPE + 7, spot.word.ground, 4))
    for left, top, spot in spots:
        word = spot.word
        baseline, score = top + TYPE + 1, f"{word.score:.3g}"
        figure.marks.append(
            Writing(left, baseline, word.text, TYPE, word.letter, face, spot.rtl, score)
        )
    return y + LEADING * (deep + 0.5)


def _legend(figure: Figure, sheet: Sheet, view: View, x: float, y: float, look: Look) -> None:
    """What the colours mean: their ends in numbers."""
    low, high = ends(view)
    if view.signed:
        low, high = f"against  {low}", f"{high}  for"
    (wide, high_), zoom = RAMP, look.zoom
    colours = view_colours(sheet, view, look.colours)
    bar = words_bar(round(wide * zoom), round(high_ * zoom), colours, view.signed)
    figure.write(x, y, [low], SMALL, QUIET)
    x += text_width(low, SMALL, base_face(low)) + 6
    figure.marks.append(Picture(x, y + 3, wide, high_, bar))
    figure.write(x + wide + 6, y, [high], SMALL, QUIET)


def lay_out(
    words: list[StyledWord], width: float = COLUMN, face: Face | None = None
) -> tuple[list[Placed], int]:
    """Each word's place on a line; lines break at gaps, where they are full or were broken.

    What is wider than a line breaks between its words, and a word that is wider breaks anywhere.
    Each line then takes the order in which its scripts are read.
    """
    face = face or base_face("".join(word.text for word in words))
    lines: list[list[StyledWord]] = [[]]
    x = 0.0
    for run in runs(words):
        gap = run[0].gap
        if "\n" in gap and lines[0]:
            x = 0.0
            lines += [[] for _ in range(min(gap.count("\n"), 2))]
        elif gap and x > 0:
            x += SPACE
        whole = sum(text_width(word.text, TYPE, face) + SEAM for word in run) - SEAM
        if x > 0 and x + whole > width:
            x = 0.0
            lines.append([])
        for part in (part for word in run for part in parts_of(word, width, face)):
            wide = text_width(part.text, TYPE, face)
            if x > 0 and x + wide > width:
                x = 0.0
                lines.append([])
            lines[-1].append(part)
            x += wide + SEAM
    rtl = right_to_left("".join(word.gap + word.text for word in words))
    placed = [spot for number, line in enumerate(lines)
              for spot in _on_line(line, number, width, face, rtl)]  # fmt: skip
    return placed, len(lines)


def _on_line(
    line: list[StyledWord], number: int, width: float, face: Face, rtl: bool
) -> list[Placed]:
    """A line's words from left to right, in the order that is read where scripts run both ways."""
    order, turned = read_order([(word.gap, word.text) for word in line], rtl)
    found: list[Placed] = []
    x = 0.0
    for place, i in enumerate(order):
        spaced = place == 0 or _space_between(line, order[place - 1], i)
        if place:
            x += SPACE if spaced else SEAM
            found[-1] = replace(found[-1], after=spaced)
        wide = text_width(line[i].text, TYPE, face)
        found.append(Placed(x, number, line[i], wide, turned[i], spaced))
        x += wide
    shift = width - x if rtl else 0.0
    return [replace(spot, x=spot.x + shift) for spot in found]


def _space_between(line: list[StyledWord], one: int, other: int) -> bool:
    """Words that are neighbours in the text have a space where it has one; others always."""
    return abs(one - other) != 1 or bool(line[max(one, other)].gap)


def parts_of(word: StyledWord, width: float, face: Face) -> list[StyledWord]:
    """The word, or the parts of it that fit on a line each; the first has the word's gap."""
    first, *rest = broken(word.text, width, TYPE, face)
    return [replace(word, text=first), *(replace(word, text=part, gap="") for part in rest)]


def runs(words: list[StyledWord]) -> list[list[StyledWord]]:
    """Words with nothing between them stay together."""
    found: list[list[StyledWord]] = []
    for word in words:
        if word.gap or not found:
            found.append([])
        found[-1].append(word)
    return found
