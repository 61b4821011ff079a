"""A map over an image: smooth or patch by patch, with a contour, and the bar that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from whyformer.render.colour import STEPS
from whyformer.render.palettes import Colours, map_colours

#: a picture's longer side, at least, so that a 96-pixel input is worth looking at
LEAST_SIDE = 384
#: how fast colour fades with strength: less than one shows more of what is weak
FADE = 0.75
#: how much the ground is darkened and greyed where nothing spoke
DIMMED, GREYED = 0.35, 0.5
#: how much of a photo is left where the model did not see it
UNSEEN = 0.3
#: what lies between for and against, where there is no picture
NOTHING = (165, 165, 165)


def enlarged(image: Image.Image, least: int = LEAST_SIDE) -> Image.Image:
    """The image at a size to look at; larger ones stay as they are."""
    factor = least / max(image.size)
    if factor <= 1:
        return image
    size = (round(image.width * factor), round(image.height * factor))
    return image.resize(size, Image.Resampling.BICUBIC)


def stretched(
    share: np.ndarray, size: tuple[int, int], smooth: bool = True, frames: int = 1
) -> np.ndarray:
    """A patch map at an image's (width, height): bilinear, as ``Explanation.image_map``.

    A video's ``frames`` side by side are stretched each on its own: none colours the next.
    """
    how = Image.Resampling.BILINEAR if smooth else Image.Resampling.NEAREST
    edges = seams(size[0], frames)
    pieces = [
        np.asarray(Image.fromarray(piece).resize((right - left, size[1]), how))
        for piece, left, right in zip(
            np.split(share.astype(np.float32), frames, 1), edges, edges[1:], strict=False
        )
    ]
    return np.concatenate(pieces, 1).clip(-1, 1)


def seams(width: int, frames: int) -> list[int]:
    """Where frames side by side begin, and where the last one ends."""
    return [round(i * width / frames) for i in range(frames + 1)]


def overlay(
    image: Image.Image,
    share: np.ndarray,
    *,
    opacity: float = 0.85,
    smooth: bool = True,
    contour: float | None = None,
    colours: Colours | None = None,
    line: int = 1,
    frames: int = 1,
) -> Image.Image:
    """The map over the image, as transparent as it is weak.

    ``share`` is (rows, columns) from 0 to 1, or from -1 where it is signed. ``smooth=False`` shows
    the patches as they are. ``contour`` draws a line around everything above that strength,
    ``line`` pixels wide.
    """
    heat = stretched(share, image.size, smooth, frames)
    ground = image.convert("RGB").convert("RGB", _dimmed(opacity))
    mixed = blended(ground, heat, opacity, colours or map_colours(False))
    if not smooth:
        draw_grid(mixed, share.shape)
    if contour is not None:
        draw_contour(mixed, heat >= contour, line)
    return mixed


def faded(image: Image.Image) -> Image.Image:
    """A photo where the model did not see it: pale, so that nobody takes it for the map's zero."""
    return Image.blend(Image.new("RGB", image.size, "white"), image.convert("RGB"), UNSEEN)


def _dimmed(opacity: float) -> tuple[float, ...]:
    """Red, green and blue of the ground, each from all three: greyer and darker."""
    kept, grey = 1 - GREYED * opacity, GREYED * opacity / 3
    rows = ([grey + kept * (row == column) for column in range(3)] for row in range(3))
    return tuple(share * (1 - DIMMED * opacity) for row in rows for share in (*row, 0.0))


def blended(ground: Image.Image, heat: np.ndarray, opacity: float, colours: Colours) -> Image.Image:
    """The colours of a map on its ground, by Pillow: for many pictures numpy takes too long."""
    steps = (np.abs(heat) * (STEPS - 1) + 0.5).astype(np.uint8)
    paint = _painted(steps, colours.towards)
    if heat.min(initial=0) < 0:
        paint.paste(_painted(steps, colours.against), mask=Image.fromarray(heat < 0))
    ground = ground.copy()
    ground.paste(paint, mask=Image.fromarray(steps).point(_fading(opacity)))
    return ground


def _painted(steps: np.ndarray, table: np.ndarray) -> Image.Image:
    image = Image.fromarray(steps)
    image.putpalette(table.tobytes())
    return image.convert("RGB")


@cache
def _fading(opacity: float) -> list[int]:
    """How much each step of strength covers, in bytes."""
    return [round(255 * opacity * (i / (STEPS - 1)) ** FADE) for i in range(STEPS)]


def draw_grid(image: Image.Image, shape: tuple[int, ...]) -> None:
    pen = ImageDraw.Draw(image, "RGBA")
    rows, columns = shape[0], shape[1]
    for row in range(1, rows):
        y = round(row * image.height / rows)
        pen.line((0, y, image.width, y), fill=(255, 255, 255, 60))
    for column in range(1, columns):
        x = round(column * image.width / columns)
        pen.line((x, 0, x, image.height), fill=(255, 255, 255, 60))


def draw_contour(image: Image.Image, inside: np.ndarray, line: int = 1) -> None:
    """A white line with a dark seam, so that it shows on any ground."""
    area = Image.fromarray(inside.astype(np.uint8) * 255)
    for width, colour in ((6 * line + 1, (20, 20, 20)), (2 * line + 1, (255, 255, 255))):
        wide = area.filter(ImageFilter.MaxFilter(width))
        narrow = area.filter(ImageFilter.MinFilter(width))
        edge = (np.asarray(wide) != np.asarray(narrow)).astype(np.uint8) * 255
        image.paste(colour, mask=Image.fromarray(edge))


@lru_cache(8)
def colour_bar(width: int, height: int, colours: Colours, signed: bool) -> Image.Image:
    """The scale standing upright, strongest on top; nothing is grey where it is signed."""
    strength = np.repeat(np.linspace(1, -1 if signed else 0, height)[:, None], width, 1)
    if signed:
        return blended(Image.new("RGB", (width, height), NOTHING), strength, 1.0, colours)
    return Image.fromarray(colours.of(strength))


def words_bar(width: int, height: int, colours: Colours, signed: bool) -> Image.Image:
    """The scale of a text's colours, lying: strongest at the right."""
    strength = np.linspace(-1 if signed else 0, 1, max(width, 2))[None]
    return Image.fromarray(np.ascontiguousarray(np.repeat(colours.of(strength), height, 0)))


def draw_seams(image: Image.Image, frames: int, line: int) -> None:
    """White lines between the frames of a video."""
    for seam in seams(image.width, frames)[1:-1]:
        image.paste("white", (seam - line, 0, seam + line, image.height))


def draw_frame(image: Image.Image, box: Sequence[float], line: int) -> None:
    """A frame around a box that is given in shares of the image, seen on dark and on light."""
    width, height = image.size
    left, top, right, bottom = (
        round(min(max(edge, 0.0), 1.0) * (length - 1))
        for edge, length in zip(box, (width, height, width, height), strict=True)
    )
    pen = ImageDraw.Draw(image)
    frame = (min(left, right), min(top, bottom), max(left, right), max(top, bottom))
    pen.rectangle(frame, outline=(0, 0, 0), width=2 * line)
    pen.rectangle(frame, outline=(255, 255, 255), width=line)
