"""Image maps side by side, as the paper's figures: one row a class, one column a method."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from PIL import Image, ImageDraw

from whyformer.render.drawing import QUIET, fitted, font, paper, write
from whyformer.render.image import colour_bar, enlarged, overlay
from whyformer.render.sheet import ClassScore, Sheet, View

MARGIN, GAP, HEADING, BAR = 16, 10, 30, 14
MOST_COLUMNS, NOTE = 5, 20
#: what is wide stands one below the other: a sound's spectrogram, a video's frames
WIDE, WIDTH = ("sound", "video"), 720


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
    look = look or Look()
    several = len(sheet.methods) > 1
    usual = WIDTH if sheet.kind in WIDE else 320
    picture = enlarged(sheet.image, side or (224 if several else usual))
    rows = _by_class(sheet) if several else _one_after_another(sheet)
    width, height = picture.size
    row_height = HEADING + height + GAP
    columns = max(len(row) for row in rows)
    bar_room = GAP + BAR + 44
    image, pen = paper(
        2 * MARGIN + columns * (width + GAP) - GAP + bar_room,
        2 * MARGIN + len(rows) * row_height - GAP + NOTE * len(sheet.notes),
    )
    for number, row in enumerate(rows):
        y = MARGIN + number * row_height
        for column, (caption, amount, view) in enumerate(row):
            x = MARGIN + column * (width + GAP)
            if view is not None:
                shown = overlay(picture, view.strength, **asdict(look))
                image.paste(shown, (x, y + HEADING))
            elif number + column == 0 or (several and column == 0):
                image.paste(picture, (x, y + HEADING))
            _caption(pen, x, y + HEADING - 7, caption, amount, width)
        if any(view is not None for _, _, view in row):
            _bar(image, pen, MARGIN + columns * (width + GAP), y + HEADING, height, row)
    for number, note in enumerate(sheet.notes):
        y = MARGIN + len(rows) * row_height + NOTE * number
        write(pen, (MARGIN, y), note, 13, width=image.width - 2 * MARGIN, fill=QUIET)
    return image


#: what stands above a picture, the number beside it, and the map; the first is the image itself
Cell = tuple[str, str, View | None]


def _one_after_another(sheet: Sheet) -> list[list[Cell]]:
    best = sheet.classes[0]
    cells: list[Cell] = [(sheet.part or best.name, "" if sheet.part else best.number, None)]
    for view in sheet.views:
        asked = view.asked
        cells.append((f"why {asked.name}?" if asked else view.method, _number(asked), view))
    columns = 1 if sheet.kind in WIDE else MOST_COLUMNS
    return [cells[i : i + columns] for i in range(0, len(cells), columns)]


def _by_class(sheet: Sheet) -> list[list[Cell]]:
    """The methods are named once, above the first row."""
    asked: list[ClassScore | None] = [*sheet.asked] or [None]
    rows: list[list[Cell]] = []
    for score in asked:
        row: list[Cell] = [(f"why {score.name}?" if score else "", _number(score), None)]
        row += [("" if rows else method, "", sheet.view(method, score)) for method in sheet.methods]
        rows.append(row)
    return rows


def _number(score: ClassScore | None) -> str:
    return score.number if score else ""


def _caption(
    pen: ImageDraw.ImageDraw, x: float, y: float, caption: str, amount: str, width: int
) -> None:
    """The number keeps its place when the name is too long for it."""
    room = width - (font(15).getlength(amount) + 10 if amount else 0)
    name = fitted(caption, room, 15)
    write(pen, (x, y), name, 15, anchor="ls")
    write(pen, (x + font(15, name).getlength(name) + 10, y), amount, 15, fill=QUIET, anchor="ls")


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
