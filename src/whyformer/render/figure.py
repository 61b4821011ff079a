"""A figure before it is ink: boxes, writing and pictures with their places.

PNG, SVG and PDF are drawn from the same figure. A unit is 1/96 inch, the pixel of a plain screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import regex
from PIL import Image

from whyformer.render.fonts import OWN, Face, base_face, text_width

UNITS_AN_INCH = 96
Colour = tuple[int, int, int]
PAPER, INK, QUIET = (255, 255, 255), (32, 33, 36), (110, 114, 122)


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    colour: Colour
    radius: float = 0.0


@dataclass(frozen=True)
class Writing:
    """A line of text: ``y`` is its baseline, ``title`` is shown on hover."""

    x: float
    y: float
    text: str
    size: float
    colour: Colour = INK
    face: Face = OWN
    rtl: bool = False
    title: str = ""

    @property
    def width(self) -> float:
        return text_width(self.text, self.size, self.face)


@dataclass(frozen=True)
class Picture:
    """Pixels; ``titles`` (rows of columns) are shown on hover.

    They lie in ``titled``: left, top, right, bottom in shares of the picture.
    """

    x: float
    y: float
    width: float
    height: float
    image: Image.Image
    titles: Sequence[Sequence[str]] = ()
    titled: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)


Mark = Box | Writing | Picture


@dataclass
class Figure:
    """Marks from the bottom up on a sheet of paper."""

    width: float
    height: float = 0.0
    marks: list[Mark] = field(default_factory=list)

    def write(
        self, x: float, y: float, lines: Sequence[str], size: float, colour: Colour = INK
    ) -> float:
        """Lines below one another from ``y`` on; where the next one would start."""
        face = base_face(" ".join(lines))
        for line in lines:
            self.marks.append(Writing(x, y + size, line, size, colour, face))
            y += leading(size)
        return y


def leading(size: float) -> float:
    return round(size * 1.3)


def wrapped(text: str, width: float, size: float) -> list[str]:
    """A text in lines that fit; a word that does not fit alone breaks where it must."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    face = base_face(text)
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if text_width(longer, size, face) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        *whole, line = broken(word, width, size, face)
        lines += whole
    return [*lines, line]


def broken(word: str, width: float, size: float, face: Face) -> list[str]:
    """The word, or the parts of it that fit on a line each; what is one letter stays one."""
    parts, rest = [], regex.findall(r"\X", word)
    while len(rest) > 1 and (wide := text_width("".join(rest), size, face)) > width:
        fitting = max(1, min(len(rest) - 1, int(len(rest) * width / wide)))
        while fitting > 1 and text_width("".join(rest[:fitting]), size, face) > width:
            fitting -= 1
        parts.append("".join(rest[:fitting]))
        rest = rest[fitting:]
    return [*parts, "".join(rest)]


def stacked(figures: Sequence[Figure]) -> Figure:
    """Figures below one another."""
    whole = Figure(max(figure.width for figure in figures))
    for figure in figures:
        whole.marks += [moved(mark, whole.height) for mark in figure.marks]
        whole.height += figure.height
    return whole


def reduced(figure: Figure, share: float) -> Figure:
    """The whole figure smaller, its type too."""
    return Figure(
        figure.width * share,
        figure.height * share,
        [_reduced(mark, share) for mark in figure.marks],
    )


def _reduced(mark: Mark, share: float) -> Mark:
    x, y = mark.x * share, mark.y * share
    if isinstance(mark, Writing):
        return replace(mark, x=x, y=y, size=mark.size * share)
    width, height = mark.width * share, mark.height * share
    if isinstance(mark, Box):
        return replace(mark, x=x, y=y, width=width, height=height, radius=mark.radius * share)
    return replace(mark, x=x, y=y, width=width, height=height)


def moved(mark: Mark, down: float) -> Mark:
    return replace(mark, y=mark.y + down)
