"""A text's views as a picture: coloured words in columns, classes next to each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PIL import Image, ImageDraw

from whyformer.render.drawing import QUIET, font, paper, write
from whyformer.render.prose import Marked, heading, marked_words, side_by_side
from whyformer.render.sheet import Sheet

MARGIN, GUTTER, COLUMN, TYPE, LEADING = 24, 36, 460, 17, 28
SPACE = 5

Placed = tuple[float, int, Marked]


def text_picture(sheet: Sheet, pieces: bool = False) -> Image.Image:
    rows = list(side_by_side(sheet))
    columns = max(len(row) for row in rows)
    laid_out = [
        [(heading(sheet, view), *lay_out(marked_words(sheet, view, pieces))) for view in row]
        for row in rows
    ]
    heights = [max(lines for _, _, lines in row) * LEADING + 2 * LEADING for row in laid_out]
    note_room = LEADING * len(sheet.notes)
    image, pen = paper(
        2 * MARGIN + columns * (COLUMN + GUTTER) - GUTTER, 2 * MARGIN + sum(heights) + note_room
    )
    y = float(MARGIN)
    for row, height in zip(laid_out, heights, strict=True):
        for column, (title, placed, _) in enumerate(row):
            x = MARGIN + column * (COLUMN + GUTTER)
            write(pen, (x, y), title, 16, width=COLUMN)
            _draw(pen, x, y + LEADING * 1.2, placed)
        y += height
    for note in sheet.notes:
        write(pen, (MARGIN, y), note, 13, width=image.width - 2 * MARGIN, fill=QUIET)
        y += LEADING
    return image


def lay_out(words: list[Marked], width: float = COLUMN) -> tuple[list[Placed], int]:
    """Each word's place on a line; lines break at gaps, where they are full or were broken.

    What is wider than a line breaks between its words, and a word that is wider breaks anywhere.
    """
    face = page_font(words)
    placed: list[Placed] = []
    x, line = 0.0, 0
    for run in runs(words):
        gap = run[0].gap
        if "\n" in gap and placed:
            x, line = 0.0, line + min(gap.count("\n"), 2)
        elif gap and x > 0:
            x += SPACE
        whole = sum(face.getlength(word.text) for word in run)
        if x > 0 and x + whole > width:
            x, line = 0.0, line + 1
        for part in (part for word in run for part in parts_of(word, width, face)):
            length = face.getlength(part.text)
            if x > 0 and x + length > width:
                x, line = 0.0, line + 1
            placed.append((x, line, part))
            x += length
    return placed, line + 1


def page_font(words: list[Marked]) -> Any:
    """One face for all words, so that lines do not change theirs in the middle."""
    return font(TYPE, "".join(word.text for word in words))


def parts_of(word: Marked, width: float, face: Any) -> list[Marked]:
    """The word, or the parts of it that fit on a line each."""
    parts, rest = [], word.text
    while face.getlength(rest) > width and len(rest) > 1:
        fitting = max(1, int(len(rest) * width / face.getlength(rest)))
        while fitting > 1 and face.getlength(rest[:fitting]) > width:
            fitting -= 1
        parts.append(replace(word, text=rest[:fitting]))
        rest = rest[fitting:]
    return [*parts, replace(word, text=rest)]


def runs(words: list[Marked]) -> list[list[Marked]]:
    """Words with nothing between them stay together."""
    found: list[list[Marked]] = []
    for word in words:
        if word.gap or not found:
            found.append([])
        found[-1].append(word)
    return found


def _draw(pen: ImageDraw.ImageDraw, x: float, y: float, placed: list[Placed]) -> None:
    """All grounds first, so that none covers a neighbour's letters."""
    face = page_font([word for _, _, word in placed])
    spots = [(x + left, y + LEADING * line, word) for left, line, word in placed]
    for left, top, word in spots:
        if word.shown:
            box = (left - 1, top - 2, left + face.getlength(word.text) + 1, top + TYPE + 5)
            pen.rounded_rectangle(box, 4, word.ground)
    for left, top, word in spots:
        pen.text((left, top + TYPE - 1), word.text, fill=word.letter, font=face, anchor="ls")
