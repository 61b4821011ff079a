"""Figures as vector pictures: real text, with scores on hover."""

from __future__ import annotations

import unicodedata
from html import escape

from whyformer.render.colour import hexadecimal
from whyformer.render.document import png_data
from whyformer.render.figure import Box, Figure, Picture, Writing
from whyformer.render.fonts import faces

#: readers' programs find fonts for what these lack; some take the digits of an emoji font if named
FONTS = "Helvetica, Arial, 'Noto Sans', sans-serif"


def to_svg(figure: Figure) -> str:
    width, height = f"{figure.width:.0f}", f"{figure.height:.0f}"
    body = "".join(_mark(mark) for mark in figure.marks)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" style="font-family: {FONTS}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{body}</svg>\n'
    )


def _mark(mark: Box | Writing | Picture) -> str:
    if isinstance(mark, Box):
        return (
            f'<rect x="{mark.x:.1f}" y="{mark.y:.1f}" width="{mark.width:.1f}" '
            f'height="{mark.height:.1f}" rx="{mark.radius:g}" fill="{hexadecimal(mark.colour)}"/>'
        )
    return _picture(mark) if isinstance(mark, Picture) else _writing(mark)


def _picture(mark: Picture) -> str:
    """The pixels, and an unseen shape a patch that tells its score."""
    place = f'transform="translate({mark.x:.2f} {mark.y:.2f})"'
    size = f'width="{mark.width:.2f}" height="{mark.height:.2f}"'
    shapes = []
    left, top, right, bottom = mark.titled
    x, y = left * mark.width, top * mark.height
    for row, titles in enumerate(mark.titles):
        wide = (right - left) * mark.width / len(titles)
        high = (bottom - top) * mark.height / len(mark.titles)
        shapes += [
            f'<rect x="{x + column * wide:.2f}" y="{y + row * high:.2f}" width="{wide:.2f}" '
            f'height="{high:.2f}" fill-opacity="0"><title>{title}</title></rect>'
            for column, title in enumerate(titles)
        ]
    source = png_data(mark.image)
    return (
        f'<g {place}><image {size} preserveAspectRatio="none" href="{source}"/>'
        f"{''.join(shapes)}</g>"
    )


def _writing(mark: Writing) -> str:
    """As wide as it was measured, where this machine had the letters to measure."""
    known = len(mark.text) > 1 and all(face for _, face in faces(mark.text, mark.face))
    length = f' textLength="{mark.width:.1f}" lengthAdjust="spacingAndGlyphs"' if known else ""
    title = f"<title>{escape(mark.title)}</title>" if mark.title else ""
    # The start of a text that runs from right to left is its right end.
    x = mark.x + mark.width if mark.rtl else mark.x
    direction = ' direction="rtl"' if mark.rtl else ""
    return (
        f'<text x="{x:.1f}" y="{mark.y:.1f}" font-size="{mark.size:g}"{length}{direction} '
        f'xml:space="preserve" fill="{hexadecimal(mark.colour)}">'
        f"{title}{_printable(mark.text)}</text>"
    )


def _printable(text: str) -> str:
    """Escaped, and without the control characters that XML forbids; joiners stay."""
    return escape("".join(a for a in text if a.isprintable() or unicodedata.category(a) == "Cf"))
