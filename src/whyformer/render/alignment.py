"""Many words of an answer as one picture: a row a word, the source and the words so far across."""

from __future__ import annotations

import numpy as np
from PIL import Image

from whyformer.render.drawing import font, paper, write
from whyformer.render.figure import QUIET, Figure, Picture
from whyformer.render.palettes import for_and_against
from whyformer.render.sheet import Sheet, View
from whyformer.words import shorten, strongest

MARGIN, TITLE, TYPE, ROW, GAP = 24, 16, 13, 18, 28
#: a sound's width and the height of its spectrogram
WIDTH, HEIGHT = 720, 120
#: more questions than these are drawn as rows, not one by one
FEW = 3


def is_answer(sheet: Sheet) -> bool:
    """Whether many words were asked about by one method, in several inputs."""
    along = all(part.image is None or part.views[0].scores.shape[0] == 1 for part in sheet.parts)
    return len(sheet.views) > FEW and bool(sheet.others) and len(sheet.methods) == 1 and along


def answer_figure(sheet: Sheet) -> Figure:
    """The picture alone on its paper."""
    image = answer_picture(sheet)
    figure = Figure(image.width)
    figure.marks.append(Picture(0, 0, image.width, image.height, image))
    figure.height = image.height
    return figure


def answer_picture(sheet: Sheet) -> Image.Image:
    """Words from top to bottom; a sound's time, or a text's words, from left to right."""
    names = [shorten(view.asked.name, 18) if view.asked else "" for view in sheet.views]
    room = round(max(font(TYPE, name).getlength(name) for name in names)) + 10
    heads = [_head(part) for part in sheet.parts]
    above = max(head.height for head in heads)
    left, top = MARGIN + room, MARGIN + 2 * TITLE + above + 6
    width = left + sum(head.width + GAP for head in heads) - GAP + MARGIN
    bottom = top + len(names) * ROW
    legend = "Row: a word that was written. Each row has its own scale, over all that it came from."
    image, pen = paper(max(width, 640), bottom + MARGIN + (TYPE + 8) * (len(sheet.notes) + 1))
    by = f"by {sheet.methods[0]}"
    room = image.width - 2 * MARGIN
    write(pen, (MARGIN, MARGIN - 6), f"{sheet.title} {by}".strip(), TITLE, width=room)
    for row, name in enumerate(names):
        write(pen, (left - 8, top + row * ROW + ROW // 2), name, TYPE, anchor="rm")
    x = left
    for part, head in zip(sheet.parts, heads, strict=True):
        image.paste(head, (x, top - 6 - head.height))
        for row, view in enumerate(part.views):
            image.paste(_strip(part, view, head.width), (x, top + row * ROW))
        x += head.width + GAP
    for number, note in enumerate([legend, *sheet.notes]):
        y = bottom + 12 + number * (TYPE + 8)
        write(pen, (MARGIN, y), note, TYPE, width=room, fill=QUIET)
    return image


def _head(part: Sheet) -> Image.Image:
    """What stands above a part's columns: its picture, or its words turned upright."""
    if part.image is not None:
        return part.image.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    names = [shorten(word.text, 18) for word in part.words]
    tall = round(max((font(TYPE, name).getlength(name) for name in names), default=0)) + 4
    flat, pen = paper(tall, max(1, len(names)) * ROW)
    for row, name in enumerate(names):
        write(pen, (2, row * ROW + ROW // 2), name, TYPE, fill=QUIET, anchor="lm")
    return flat.transpose(Image.Transpose.ROTATE_90)


def _strip(part: Sheet, view: View, width: int) -> Image.Image:
    """One row of a part."""
    scores = view.scores.reshape(-1)
    if part.image is None:
        scores = np.array([strongest(scores, word.pieces) for word in part.words])
    colours = for_and_against().of(scores / (view.top or 1))
    line = Image.fromarray(np.repeat(colours[None], ROW - 1, 0))
    how = Image.Resampling.NEAREST if part.image is None else Image.Resampling.BOX
    return line.resize((width, ROW - 1), how)
