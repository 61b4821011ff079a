"""Sheets made by hand, so that what a rendering must show is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from whyformer.render.figure import Figure, Writing
from whyformer.render.look import Look
from whyformer.render.pages import text_figure
from whyformer.render.prose import StyledWord
from whyformer.render.sheet import ClassScore, Sheet, View
from whyformer.words import Piece

#: strings that try to leave the text they are in
HOSTILE = [
    "<script>alert(1)</script>",
    "]]><b>",
    "&amp; &",
    "\"quoted\" 'twice'",
    "</title></svg>",
    "a\x00b\x07c\x1b[31md\x7fe\x9bf",
    "{{x}} {title} %s",
]

GREY = (150, 150, 150)
CAT = ClassScore(0, "cat", 2.0, 0.7)
DOG = ClassScore(1, "dog", 1.0, 0.3)


def sheet(kind: str, views: Sequence[View], **changes: Any) -> Sheet:
    asked = {view.asked.index: view.asked for view in views if view.asked}
    given: dict[str, Any] = {
        "title": "",
        "model": "",
        "preset": "stable",
        "problem": "single_label_classification",
        "classes": list(asked.values()) or [CAT, DOG],
        "notes": [],
        **changes,
    }
    return Sheet(kind=kind, views=list(views), **given)


def image_sheet(
    *views: View, size: tuple[int, int] = (60, 30), colour: Any = (90, 160, 200), **changes: Any
) -> Sheet:
    """Views over an image of one colour; ``size`` is width and height."""
    return sheet("image", views, image=Image.new("RGB", size, colour), **changes)


def text_sheet(pieces: Sequence[Piece], *views: View, **changes: Any) -> Sheet:
    return sheet("text", views, pieces=list(pieces), **changes)


def plain_text(text: str, asked: ClassScore | None = CAT, **changes: Any) -> Sheet:
    """A text whose words are pieces; each is as strong as its place from the end."""
    words = text.split(" ")
    pieces = [Piece(word, " " if i else "", i) for i, word in enumerate(words)]
    scores = np.arange(len(words), 0.0, -1)
    return text_sheet(pieces, View("lrp", asked, scores), **changes)


def one_hot(rows: int, columns: int, *where: tuple[int, int]) -> np.ndarray:
    scores = np.zeros((rows, columns))
    for place in where:
        scores[place] = 1.0
    return scores


def canvas(size: tuple[int, int] = (60, 30), colour: tuple[int, int, int] = GREY) -> Image.Image:
    return Image.new("RGB", size, colour)


def mark(text: str, gap: str = " ") -> StyledWord:
    return StyledWord(text, gap, 1.0, 1.0, (200, 220, 255), (17, 17, 17))


def said(sheet: Sheet, **look: object) -> list[str]:
    """What a figure says, without the words of the text."""
    figure = text_figure(sheet, look=Look(**look))  # type: ignore[arg-type]
    return [mark.text for mark in figure.marks if isinstance(mark, Writing) and not mark.title]


def letters(figure: Figure) -> list[Writing]:
    return [mark for mark in figure.marks if isinstance(mark, Writing) and mark.title]
