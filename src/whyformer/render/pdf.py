"""Figures as PDF, with fpdf2: real text in embedded fonts, laid out by HarfBuzz."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

from whyformer.errors import InputError
from whyformer.render.figure import UNITS_AN_INCH, Box, Figure, Picture, Writing
from whyformer.render.fonts import BITMAP_ROOM, Face, faces

POINTS_AN_INCH = 72
#: the largest page that readers of PDF show, in points
LARGEST = 14400
#: where fpdf2 puts the baseline of a cell without height, in parts of the size
BASELINE = 0.3


def to_pdf(figure: Figure) -> bytes:
    from fpdf import FPDF

    points = POINTS_AN_INCH / UNITS_AN_INCH
    size = figure.width * points, figure.height * points
    if max(size) > LARGEST:
        raise InputError(
            f"a page of PDF has at most {LARGEST} points, and this figure {max(size):.0f}; ask for "
            "fewer methods or classes, or save .html"
        )
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    page = FPDF(unit="pt", format=size)
    page.set_margin(0)
    page.c_margin = 0
    page.set_auto_page_break(False)
    page.add_page()
    with tempfile.TemporaryDirectory(prefix="whyformer-") as folder:
        for mark in figure.marks:
            x, y = mark.x * points, mark.y * points
            if isinstance(mark, Writing):
                _write(page, mark, Path(folder), points)
                continue
            width, height = mark.width * points, mark.height * points
            if isinstance(mark, Picture):
                page.image(mark.image, x, y, width, height)
            else:
                _box(page, mark, x, y, width, height, points)
        return bytes(page.output())


def _box(
    page: Any, box: Box, x: float, y: float, width: float, height: float, points: float
) -> None:
    page.set_fill_color(*box.colour)
    radius = min(box.radius * points, width / 2, height / 2)
    page.rect(x, y, width, height, style="F", round_corners=radius > 0, corner_radius=radius)


def _write(page: Any, line: Writing, folder: Path, points: float) -> None:
    runs = list(faces(line.text, line.face))
    x = line.x * points
    for text, found in reversed(runs) if line.rtl else runs:
        face = found or line.face
        size = line.size * points / (BITMAP_ROOM if face.fixed else 1)
        page.set_font(_added(page, face, folder), size=size)
        page.set_text_shaping(True, direction="rtl" if line.rtl else None)
        page.set_text_color(*line.colour)
        page.set_xy(x, line.y * points - BASELINE * size)
        page.cell(0, 0, text)
        x += page.get_string_width(text)


def _added(page: Any, face: Face, folder: Path) -> str:
    name = f"face{abs(hash(face))}"
    if name not in page.fonts:
        path = Path(face.path)
        if face.data is not None:
            path = folder / "own.ttf"
            path.write_bytes(face.data)
        page.add_font(name, fname=path, collection_font_number=face.index)
    return name
