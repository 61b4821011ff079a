"""Figures as pixels, with Pillow."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from PIL import Image, ImageDraw, features

from whyformer.errors import InputError
from whyformer.render.figure import (
    INK,
    PAPER,
    UNITS_AN_INCH,
    Box,
    Colour,
    Figure,
    Picture,
    Writing,
    broken,
)
from whyformer.render.fonts import BITMAP_ROOM, Face, base_face, faces, text_width

#: edges are drawn this much larger and shrunk, so that corners are smooth
FINER = 4
#: more pixels than this are refused: Pillow itself warns of such pictures as bombs
MOST_PIXELS = 178_000_000


def raster(figure: Figure, dpi: int) -> Image.Image:
    zoom = dpi / UNITS_AN_INCH
    width, height = round(figure.width * zoom), round(figure.height * zoom)
    if width * height > MOST_PIXELS:
        raise InputError(
            f"the picture would have {width} x {height} pixels; ask for fewer methods or classes, "
            "fewer dpi, or save .html"
        )
    image = Image.new("RGB", (width, height), PAPER)
    pen = ImageDraw.Draw(image)
    for mark in figure.marks:
        if isinstance(mark, Box):
            _box(image, mark, zoom)
        elif isinstance(mark, Picture):
            size = round(mark.width * zoom), round(mark.height * zoom)
            shown = mark.image
            if shown.size != size:
                shown = shown.resize(size, Image.Resampling.BICUBIC)
            image.paste(shown, (round(mark.x * zoom), round(mark.y * zoom)))
        else:
            _write(image, pen, mark, zoom)
    return image


def paper(width: float, height: float) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Something to draw on by hand, where a figure has no mark for it."""
    image = Image.new("RGB", (round(width), round(height)), PAPER)
    return image, ImageDraw.Draw(image)


def font(size: float, text: str = "") -> Any:
    """A font that has the plain letters of a text."""
    return base_face(text).at(size)


def write(
    pen: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    size: float,
    *,
    width: float | None = None,
    fill: Colour = INK,
    anchor: str = "la",
) -> None:
    """One line, cut with an ellipsis where it is too wide."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    if width is not None and text_width(text, size, base_face(text)) > width:
        text = broken(text, width - 3 * size, size, base_face(text))[0].rstrip() + "..."
    pen.text(at, text, fill=fill, font=font(size, text), anchor=anchor)


def _box(image: Image.Image, box: Box, zoom: float) -> None:
    left, top = round(box.x * zoom), round(box.y * zoom)
    right, bottom = round((box.x + box.width) * zoom), round((box.y + box.height) * zoom)
    if right > left and bottom > top:
        mask = _rounded(right - left, bottom - top, box.radius * zoom)
        image.paste(box.colour, (left, top), mask)


@lru_cache(1024)
def _rounded(width: int, height: int, radius: float) -> Image.Image:
    large = Image.new("L", (width * FINER, height * FINER))
    edge = (0, 0, large.width - 1, large.height - 1)
    ImageDraw.Draw(large).rounded_rectangle(edge, radius * FINER, 255)
    return large.resize((width, height), Image.Resampling.BOX)


def _write(image: Image.Image, pen: ImageDraw.ImageDraw, line: Writing, zoom: float) -> None:
    """Run by run, each in its own face; from the right they stand the other way round."""
    runs = list(faces(line.text, line.face))
    x, baseline = line.x * zoom, line.y * zoom
    for text, face in reversed(runs) if line.rtl else runs:
        face = face or line.face
        if face.fixed:
            x += _paste_bitmaps(image, text, face, face.fixed, (x, baseline), line.size * zoom)
            continue
        font = face.at(line.size * zoom)
        way = ("rtl" if line.rtl else "ltr") if features.check("raqm") else None
        pen.text((x, baseline), text, fill=line.colour, font=font, anchor="ls", direction=way)
        x += font.getlength(text)


def _paste_bitmaps(
    image: Image.Image, text: str, face: Face, fixed: int, at: tuple[float, float], size: float
) -> float:
    """Coloured letters have one size; they are drawn at it and shrunk."""
    font = face.at(fixed)
    share = size / (fixed * BITMAP_ROOM)
    _, top, right, bottom = font.getbbox(text, anchor="ls")
    wide = font.getlength(text)
    tile = Image.new("RGBA", (max(1, round(max(right, wide))), max(1, round(bottom - top))))
    ImageDraw.Draw(tile).text((0, -top), text, font=font, embedded_color=True, anchor="ls")
    small = tile.resize(
        (max(1, round(tile.width * share)), max(1, round(tile.height * share))),
        Image.Resampling.LANCZOS,
    )
    image.paste(small, (round(at[0]), round(at[1] + top * share)), small)
    return wide * share
