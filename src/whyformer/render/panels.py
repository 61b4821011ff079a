"""Image maps side by side, as the paper's figures: one row a class, one column a method."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image

from whyformer.errors import InputError
from whyformer.render.drawing import raster
from whyformer.render.figure import (
    QUIET,
    UNITS_AN_INCH,
    Figure,
    Picture,
    leading,
    reduced,
    wrapped,
)
from whyformer.render.fonts import font_notes
from whyformer.render.image import colour_bar
from whyformer.render.look import USUAL, Look
from whyformer.render.mapped import crop_drawn, ground_of, mapped, resized
from whyformer.render.palettes import check_colours, map_colours
from whyformer.render.scaling import ends, scaled
from whyformer.render.sheet import ClassScore, Sheet, View

MARGIN, GAP, BAR, BAR_ROOM = 16, 10, 14, 68
CAPTION, SMALL, NOTE = 15, 11, 13
MOST_COLUMNS, NARROWEST = 5, 24
#: what is wide stands one below the other: a sound's spectrogram, a video's frames
WIDE, WIDTH = ("sound", "video"), 720


@dataclass(frozen=True)
class Cell:
    """What stands above a picture, and its map; without a map it is the image itself."""

    caption: str
    view: View | None
    blank: bool = False


def panels(sheet: Sheet, look: Look = USUAL, side: int | None = None) -> Image.Image:
    """The image and all its maps as a picture."""
    check_colours(look.colours, sheet)
    return raster(image_figure(sheet, look, side), look.dpi)


def image_figure(sheet: Sheet, look: Look = USUAL, side: int | None = None) -> Figure:
    """The image and all its maps on one sheet of paper, with captions and colour bars.

    One method: the image, then a map for each class. Several: a row for each class that was asked
    about, a column for each method.
    """
    image, sheet = ground_of(sheet, look), scaled(sheet, look.shared)
    several = len(sheet.methods) > 1
    rows = _by_class(sheet) if several else _one_after_another(sheet)
    columns = max(len(row) for row in rows)
    usual = WIDTH if sheet.kind in WIDE else 320
    width, height = _panel_size(image, columns, look, side or (224 if several else usual))
    ground = resized(image, (width * look.zoom, height * look.zoom))
    figure = Figure(2 * MARGIN + columns * (width + GAP) + BAR_ROOM)
    y = float(MARGIN)
    for row in rows:
        captions = [wrapped(cell.caption, width, CAPTION) for cell in row]
        room = max(len(lines) for lines in captions) * leading(CAPTION) + 6
        maps = [cell.view for cell in row if cell.view is not None]
        same = len({(view.span, view.signed) for view in maps}) == 1
        for column, (cell, lines) in enumerate(zip(row, captions, strict=True)):
            x = MARGIN + column * (width + GAP)
            figure.write(x, y + room - 6 - len(lines) * leading(CAPTION), lines, CAPTION)
            if not cell.blank:
                place = x, y + room, width, height
                figure.marks.append(_panel(sheet, cell.view, look, ground, place))
            if cell.view is not None and not same:
                low, high = (f"{end:.2g}" for end in cell.view.span)
                figure.write(x, y + room + height + 2, [f"{low} to {high}"], SMALL, QUIET)
        _bar(figure, MARGIN + columns * (width + GAP), y + room, height, maps, same, look)
        y += room + height + (GAP if same else leading(SMALL) + 6)
    said = " ".join([*(cell.caption for row in rows for cell in row), *sheet.notes])
    for note in [*sheet.notes, *font_notes(said)]:
        y = figure.write(MARGIN, y + 4, wrapped(note, figure.width - 2 * MARGIN, NOTE), NOTE, QUIET)
    figure.height = y + MARGIN - GAP
    return reduced(figure, look.reduction)


def _panel_size(image: Image.Image, columns: int, look: Look, side: int) -> tuple[float, float]:
    """In units: the longer side, or what a figure of the width that was asked for leaves."""
    share = side / max(image.size)
    if look.width is not None and look.units is not None:
        around = 2 * MARGIN + columns * GAP + BAR_ROOM
        room = (look.units - around) / columns
        if room < NARROWEST:
            least = (around + NARROWEST * columns) * look.reduction / UNITS_AN_INCH
            raise InputError(
                f"the figure is {look.width:.3g} inches wide and has {columns} columns; give it at "
                f"least {least:.1f}, or ask for fewer maps"
            )
        share = room / image.width
    return image.width * share, image.height * share


def _panel(
    sheet: Sheet,
    view: View | None,
    look: Look,
    ground: Image.Image,
    place: tuple[float, float, float, float],
) -> Picture:
    shown = mapped(sheet, view, look, ground, line=max(1, round(look.zoom)))
    if view is None:
        return Picture(*place, shown)
    titles = [[f"{score:.3g}" for score in row] for row in view.scores]
    crop = crop_drawn(sheet, look)
    return Picture(*place, shown, titles, crop.shares if crop else (0, 0, 1, 1))


def _one_after_another(sheet: Sheet) -> list[list[Cell]]:
    best = sheet.classes[0]
    cells = [Cell(sheet.part or _called(best.name, best), None)]
    for view in sheet.views:
        asked = view.asked
        cells.append(Cell(_called(f"why {asked.name}?", asked) if asked else view.method, view))
    columns = 1 if sheet.kind in WIDE else MOST_COLUMNS
    return [cells[i : i + columns] for i in range(0, len(cells), columns)]


def _by_class(sheet: Sheet) -> list[list[Cell]]:
    """The methods are named once, above the first row."""
    asked: list[ClassScore | None] = [*sheet.asked] or [None]
    rows: list[list[Cell]] = []
    for score in asked:
        row = [Cell(_called(f"why {score.name}?", score) if score else "", None)]
        for method in sheet.methods:
            view = sheet.view(method, score)
            row.append(Cell("" if rows else method, view, blank=view is None))
        rows.append(row)
    return rows


def _called(name: str, score: ClassScore) -> str:
    return f"{name}  {score.number}".rstrip()


def _bar(
    figure: Figure, x: float, y: float, height: float, maps: list[View], same: bool, look: Look
) -> None:
    """The colour bar: with one scale its ends are numbers, with several they are words."""
    if not maps:
        return
    signed = any(view.signed for view in maps)
    low, high = ends(maps[0]) if same else ("against", "for") if signed else ("least", "most")
    zoom = look.zoom
    colours = map_colours(signed, look.colours)
    bar = colour_bar(max(1, round(BAR * zoom)), max(2, round(height * zoom)), colours, signed)
    figure.marks.append(Picture(x, y, BAR, height, bar))
    for word, top in ((high, y), (low, y + height - leading(SMALL))):
        figure.write(x + BAR + 5, top, [word], SMALL, QUIET)
    if signed:
        figure.write(x + BAR + 5, y + height / 2 - SMALL * 0.6, ["0"], SMALL, QUIET)
        if same:
            figure.write(x + BAR + 5, y + leading(SMALL), ["for"], SMALL, QUIET)
            figure.write(x + BAR + 5, y + height - 2 * leading(SMALL), ["against"], SMALL, QUIET)
