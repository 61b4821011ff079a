"""The whole matrix of a written text as a picture: which word came from which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw

from whyformer.render.drawing import font, paper, write
from whyformer.render.figure import INK, QUIET
from whyformer.render.palettes import for_and_against
from whyformer.words import printable, shorten

if TYPE_CHECKING:
    from whyformer.models.written import Written

MARGIN, TITLE, NOTE, TYPE = 24, 17, 13, 13
#: a cell's sides, and from which on labels fit
SMALLEST, LEGIBLE, LARGEST = 3, 14, 20
WIDEST = 2400
GRID = (236, 236, 240)


def shares_of(written: Written) -> np.ndarray:
    """(written, pieces) from -1 to 1: each word's scores, the largest being one; sinks are zero."""
    scores = written.relevance.double().cpu().numpy().copy()
    sinks = [i for i, piece in enumerate(written.pieces) if piece.sink]
    scores[:, sinks] = 0
    most = np.abs(scores).max(1, keepdims=True)
    return scores / np.where(most > 0, most, 1)


def names_of(written: Written) -> list[str]:
    """What every piece is called: its text, or its token where that cannot be seen."""
    texts = [printable(piece.text).strip() for piece in written.pieces]
    return [
        text if text.isprintable() and text else written.labels[number]
        for text, number in zip(texts, written.ids, strict=True)
    ]


def matrix_picture(written: Written, title: str = "") -> Image.Image:
    """Written words from top to bottom, all pieces before them from left to right."""
    shares = shares_of(written)
    rows, columns = shares.shape[0], shares.shape[1] - 1
    names = [shorten(name, 14) for name in names_of(written)]
    room = round(max(font(TYPE, name).getlength(name) for name in names)) + 14
    cell = max(SMALLEST, min(LARGEST, (WIDEST - room - 2 * MARGIN) // columns))
    labelled = cell >= LEGIBLE
    room = room if labelled else 0
    left, top = MARGIN + room, MARGIN + 2 * TITLE + room
    width = max(left + columns * cell + MARGIN, 640)
    notes = [
        *written.notes,
        *([] if labelled else ["too many pieces for labels: .html names them"]),
    ]
    height = top + rows * cell + 2 * MARGIN + (NOTE + 8) * (len(notes) + 1)
    image, pen = paper(width, height)
    heading = title or f"{written.model}: what each word came from, by {written.method}"
    write(pen, (MARGIN, MARGIN), heading, TITLE, width=width - 2 * MARGIN)
    _cells(pen, shares[:, :columns], left, top, cell)
    bottom = top + rows * cell
    edge = left + written.start * cell
    if written.start <= columns:
        pen.line((edge, top - (room and 6), edge, bottom), QUIET, 1)
    if labelled:
        _labels(image, pen, names, written.start, (left, top), cell)
    y = bottom + 14
    write(pen, (MARGIN, y), _legend(written), NOTE, width=width - 2 * MARGIN, fill=QUIET)
    for note in notes:
        y += NOTE + 8
        write(pen, (MARGIN, y), note, NOTE, width=width - 2 * MARGIN, fill=QUIET)
    return image


def _legend(written: Written) -> str:
    against = " Orange speaks against it." if bool((written.relevance < 0).any()) else ""
    return (
        "Row: a word that was written. Column: a word before it; the line ends the prompt. Each "
        f"row has its own scale.{against}"
    )


def _cells(pen: ImageDraw.ImageDraw, shares: np.ndarray, left: int, top: int, cell: int) -> None:
    grounds = for_and_against().of(shares)
    lines = 1 if cell >= 6 else 0
    first = shares.shape[1] - shares.shape[0] + 1
    for row in range(shares.shape[0]):
        for column in range(first + row):
            x, y = left + column * cell, top + row * cell
            box = (x, y, x + cell - 1 - lines, y + cell - 1 - lines)
            pen.rectangle(box, tuple(int(c) for c in grounds[row, column]))
            if lines:
                pen.rectangle((x - 1, y - 1, x + cell - 1, y + cell - 1), outline=GRID)


def _labels(
    image: Image.Image,
    pen: ImageDraw.ImageDraw,
    names: list[str],
    start: int,
    corner: tuple[int, int],
    cell: int,
) -> None:
    (left, top), middle = corner, cell // 2 - 1
    for row, name in enumerate(names[start:]):
        write(pen, (left - 8, top + row * cell + middle), name, TYPE, anchor="rm")
    for column, name in enumerate(names[:-1]):
        colour = QUIET if column < start else INK
        tile = Image.new("RGB", (round(font(TYPE, name).getlength(name)) + 4, cell), "white")
        upright = ImageDraw.Draw(tile)
        upright.text((2, middle), name, fill=colour, font=font(TYPE, name), anchor="lm")
        turned = tile.rotate(90, expand=True)
        image.paste(turned, (left + column * cell, top - turned.height - 6))
