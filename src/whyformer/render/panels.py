"""Image maps side by side, as the paper's figures: one row a class, one column a method."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageDraw

from whyformer.render.drawing import QUIET, paper, write
from whyformer.render.image import colour_bar, enlarged, overlay
from whyformer.render.sheet import ClassScore, Sheet, View

MARGIN, GAP, HEADING, BAR = 16, 10, 30, 14


@dataclass(frozen=True)
class Look:
    """How maps are drawn; see ``overlay``."""

    opacity: float = 0.85
    smooth: bool = True
    contour: float | None = None


def panels(sheet: Sheet, look: Look | None = None, side: int | None = None) -> Image.Image:
    """The image and all its maps on one sheet of paper, with captions and a colour bar.

    One method: the image, then a map for each class. Several: a row for each class that was asked
    about, a column for each method.
    """
    assert sheet.image is not None
    several = len(sheet.methods) > 1
    picture = enlarged(sheet.image, side or (224 if several else 320))
    rows = _by_class(sheet) if several else [_in_one_row(sheet)]
    width, height = picture.size
    row_height = HEADING + height + GAP
    columns = len(rows[0])
    bar_room = GAP + BAR + 44
    top = MARGIN + (HEADING if several else 0)
    image, pen = paper(
        2 * MARGIN + columns * (width + GAP) - GAP + bar_room,
        top + len(rows) * row_height + MARGIN,
    )
    for number, row in enumerate(rows):
        y = top + number * row_height
        for column, (heading, caption, view) in enumerate(row):
            x = MARGIN + column * (width + GAP)
            shown = picture
            if view is not None:
                look = look or Look()
                shown = overlay(
                    picture,
                    view.strength,
                    opacity=look.opacity,
                    smooth=look.smooth,
                    contour=look.contour,
                )
            image.paste(shown, (x, y + HEADING))
            if several and number == 0 and heading:
                write(pen, (x, MARGIN), heading, 15, width=width)
            if caption:
                write(pen, (x, y + HEADING - 7), caption, 15, width=width, anchor="ls")
            if not several and heading:
                write(pen, (x, y + HEADING - 7), heading, 15, width=width, anchor="ls")
        _bar(image, pen, MARGIN + columns * (width + GAP), y + HEADING, height, row)
    return image


Cell = tuple[str, str, View | None]


def _in_one_row(sheet: Sheet) -> list[Cell]:
    best = sheet.classes[0]
    cells: list[Cell] = [(f"{best.name}  {best.number}" if best else "", "", None)]
    for view in sheet.views:
        asked = view.asked
        heading = f"why {asked.name}?  {asked.number}" if asked else view.method
        cells.append((heading, "", view))
    return cells


def _by_class(sheet: Sheet) -> list[list[Cell]]:
    asked: list[ClassScore | None] = [*sheet.asked] or [None]
    rows = []
    for score in asked:
        caption = f"why {score.name}?  {score.number}" if score else ""
        row: list[Cell] = [("", caption, None)]
        row += [(method, "", sheet.view(method, score)) for method in sheet.methods]
        rows.append(row)
    return rows


def _bar(
    image: Image.Image, pen: ImageDraw.ImageDraw, x: int, y: int, height: int, row: list[Cell]
) -> None:
    """The colour bar; with one map its ends are numbers, with several they are words."""
    image.paste(colour_bar(BAR, height), (x, y))
    shown = [view for _, _, view in row if view is not None]
    low, high = "least", "most"
    if len(shown) == 1:
        low, high = (f"{end:.1e}" for end in shown[0].span)
    write(pen, (x + BAR + 5, y), high, 11, fill=QUIET)
    write(pen, (x + BAR + 5, y + height), low, 11, fill=QUIET, anchor="ls")
