"""Paper, type and captions for pictures made with Pillow."""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from typing import Any

from PIL import Image, ImageDraw, ImageFont

PAPER, INK, QUIET = (255, 255, 255), (32, 33, 36), (110, 114, 122)
#: looked for when a text has letters that Pillow's own font lacks
WIDER_FONTS = (
    "DejaVuSans.ttf", "NotoSans-Regular.ttf", "NotoSansCJK-Regular.ttc", "Arial Unicode.ttf",
)  # fmt: skip


@cache
def _font(size: int, wider: bool) -> Any:
    for name in WIDER_FONTS if wider else ():
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


def font(size: int, text: str = "") -> Any:
    """Pillow's own font, the same on every machine; a system font for letters beyond ASCII."""
    return _font(size, any(ord(letter) > 0x7E for letter in text))


def fitted(text: str, width: float, size: int) -> str:
    """The text, cut with an ellipsis where it is too wide."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    face = font(size, text)
    if face.getlength(text) <= width:
        return text
    fitting = bisect_left(
        range(len(text)), True, key=lambda n: face.getlength(text[: n + 1] + "...") > width
    )
    return text[:fitting].rstrip() + "..."


def write(
    pen: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    size: int,
    *,
    width: float | None = None,
    fill: tuple[int, int, int] = INK,
    anchor: str = "la",
) -> None:
    shown = text if width is None else fitted(text, width, size)
    pen.text(at, shown, fill=fill, font=font(size, shown), anchor=anchor)


def paper(width: float, height: float) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (round(width), round(height)), PAPER)
    return image, ImageDraw.Draw(image)
