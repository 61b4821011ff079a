"""Vector pictures: patches and words as shapes that stay sharp, with their scores on hover."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from whyformer.render.colour import coloured, hexadecimal
from whyformer.render.document import png_data
from whyformer.render.drawing import INK
from whyformer.render.image import FADE, enlarged
from whyformer.render.pages import COLUMN, GUTTER, LEADING, MARGIN, TYPE, lay_out, page_font
from whyformer.render.panels import Look
from whyformer.render.prose import Marked, heading, marked_words, side_by_side
from whyformer.render.sheet import Sheet, View

STYLE = f"font-family: Helvetica, Arial, sans-serif; fill: {hexadecimal(INK)}"


def image_svg(sheet: Sheet, look: Look | None = None) -> str:
    """The image once, then each view's patches over it; methods in rows."""
    assert sheet.image is not None
    picture = enlarged(sheet.image)
    width, height = picture.size
    source = png_data(picture)
    opacity = (look or Look()).opacity
    name = f"image {sheet.part}".strip().replace(" ", "-")
    rows = list(side_by_side(sheet))
    parts = []
    for number, views in enumerate(rows):
        for column, view in enumerate(views):
            x = MARGIN + column * (width + MARGIN)
            y = MARGIN + number * (height + 2 * LEADING)
            parts.append(
                f'<g transform="translate({x} {y})">'
                f'<text y="{LEADING - 10}" font-size="16">{_printable(heading(sheet, view))}</text>'
                f'<g transform="translate(0 {LEADING})">'
                f'<use href="#{escape(name)}"/>{_patches(view, width, height, opacity)}</g></g>'
            )
    across = max(len(views) for views in rows)
    define = f'<image id="{escape(name)}" width="{width}" height="{height}" href="{source}"/>'
    return _svg(
        MARGIN + across * (width + MARGIN),
        2 * MARGIN + len(rows) * (height + 2 * LEADING) - LEADING,
        f"<defs>{define}</defs>{''.join(parts)}",
        sheet.notes,
    )


def _patches(view: View, width: int, height: int, opacity: float) -> str:
    rows, columns = view.scores.shape
    wide, high = width / columns, height / rows
    strengths, colours = view.strength, coloured(view.strength)
    shapes = [f'<rect width="{width}" height="{height}" fill="#000000" fill-opacity="0.3"/>']
    for row in range(rows):
        for column in range(columns):
            alpha = opacity * strengths[row, column] ** FADE
            colour = hexadecimal(colours[row, column])
            shapes.append(
                f'<rect x="{column * wide:.2f}" y="{row * high:.2f}" width="{wide:.2f}" '
                f'height="{high:.2f}" fill="{colour}" fill-opacity="{alpha:.3f}">'
                f"<title>{view.scores[row, column]:.3g}</title></rect>"
            )
    return "".join(shapes)


def text_svg(sheet: Sheet, pieces: bool = False) -> str:
    parts, y, across = [], float(MARGIN), 1
    for views in side_by_side(sheet):
        deepest, across = 0, max(across, len(views))
        for column, view in enumerate(views):
            placed, lines = lay_out(marked_words(sheet, view, pieces))
            deepest = max(deepest, lines)
            x = MARGIN + column * (COLUMN + GUTTER)
            title = _printable(heading(sheet, view))
            parts.append(f'<text x="{x}" y="{y + 14:.1f}" font-size="16">{title}</text>')
            spots = [(x + left, y + LEADING * (1.9 + line), word) for left, line, word in placed]
            face = page_font([word for _, _, word in placed])
            parts += [_ground(*spot, face) for spot in spots if spot[2].shown]
            parts += [_letters(*spot, face) for spot in spots]
        y += LEADING * (deepest + 2)
    width = 2 * MARGIN + across * (COLUMN + GUTTER) - GUTTER
    return _svg(width, y + MARGIN, "".join(parts), sheet.notes)


def _ground(x: float, baseline: float, word: Marked, face: Any) -> str:
    width = face.getlength(word.text) + 2
    return (
        f'<rect x="{x - 1:.1f}" y="{baseline - TYPE:.1f}" width="{width:.1f}" '
        f'height="{TYPE + 6}" rx="4" fill="{hexadecimal(word.ground)}"/>'
    )


def _letters(x: float, baseline: float, word: Marked, face: Any) -> str:
    return (
        f'<text x="{x:.1f}" y="{baseline:.1f}" font-size="{TYPE}" '
        f'textLength="{face.getlength(word.text):.1f}" lengthAdjust="spacingAndGlyphs" '
        f'style="fill:{hexadecimal(word.letter)}"><title>{word.score:.3g}</title>'
        f"{_printable(word.text)}</text>"
    )


def stacked(drawings: list[str]) -> str:
    """Pictures one below the other, each an ``svg`` element of its own inside the whole."""
    size = re.compile(r'width="(\d+)" height="(\d+)"')
    sizes = [tuple(map(int, size.search(d).groups())) for d in drawings]  # type: ignore[union-attr]
    top, parts = 0, []
    for drawn, (_, height) in zip(drawings, sizes, strict=True):
        parts.append(drawn.replace("<svg ", f'<svg y="{top}" ', 1))
        top += height
    return _svg(max(width for width, _ in sizes), top, "".join(parts), [])


def _printable(text: str) -> str:
    """Escaped, and without the control characters that XML forbids."""
    return escape("".join(letter for letter in text if letter.isprintable()))


def _svg(width: float, height: float, body: str, notes: list[str]) -> str:
    """The notes stand below."""
    for number, note in enumerate(notes):
        y = height + LEADING * number
        body += f'<text x="{MARGIN}" y="{y:.0f}" font-size="13">{_printable(note)}</text>'
    height += LEADING * len(notes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" style="{STYLE}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{body}</svg>\n'
    )
