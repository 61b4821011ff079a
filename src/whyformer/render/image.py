"""A map over an image: smooth or patch by patch, with a contour, and the bar that reads it."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from whyformer.render.colour import coloured, scale

#: a picture's longer side, at least, so that a 96-pixel input is worth looking at
LEAST_SIDE = 384
#: how fast colour fades with strength: less than one shows more of what is weak
FADE = 0.75
#: how much the ground is darkened and greyed where nothing spoke for the class
DIMMED, GREYED = 0.35, 0.5


def enlarged(image: Image.Image, least: int = LEAST_SIDE) -> Image.Image:
    """The image at a size to look at; larger ones stay as they are."""
    factor = least / max(image.size)
    if factor <= 1:
        return image
    size = (round(image.width * factor), round(image.height * factor))
    return image.resize(size, Image.Resampling.BICUBIC)


def stretched(strength: np.ndarray, size: tuple[int, int], smooth: bool = True) -> np.ndarray:
    """A patch map at an image's (width, height)."""
    how = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
    large = Image.fromarray(strength.astype(np.float32)).resize(size, how)
    return np.asarray(large).clip(0, 1)


def overlay(
    image: Image.Image,
    strength: np.ndarray,
    *,
    opacity: float = 0.85,
    smooth: bool = True,
    contour: float | None = None,
) -> Image.Image:
    """The map over the image, as transparent as it is weak.

    ``strength`` is (rows, columns) from 0 to 1. ``smooth=False`` shows the patches as they are.
    ``contour`` draws a line around everything above that strength.
    """
    heat = stretched(strength, image.size, smooth)
    alpha = (heat**FADE * opacity)[..., None]
    ground = np.asarray(image.convert("RGB"), float)
    grey = ground.mean(-1, keepdims=True)
    ground = (ground + GREYED * opacity * (grey - ground)) * (1 - DIMMED * opacity)
    blended = ground * (1 - alpha) + coloured(heat) * alpha
    mixed = Image.fromarray(blended.round().astype(np.uint8))
    if not smooth:
        draw_grid(mixed, strength.shape)
    if contour is not None:
        draw_contour(mixed, heat >= contour)
    return mixed


def draw_grid(image: Image.Image, shape: tuple[int, ...]) -> None:
    pen = ImageDraw.Draw(image, "RGBA")
    rows, columns = shape[0], shape[1]
    for row in range(1, rows):
        y = round(row * image.height / rows)
        pen.line((0, y, image.width, y), fill=(255, 255, 255, 60))
    for column in range(1, columns):
        x = round(column * image.width / columns)
        pen.line((x, 0, x, image.height), fill=(255, 255, 255, 60))


def draw_contour(image: Image.Image, inside: np.ndarray) -> None:
    """A white line with a dark seam, so that it shows on any ground."""
    area = Image.fromarray(inside.astype(np.uint8) * 255)
    for width, colour in ((7, (20, 20, 20)), (3, (255, 255, 255))):
        wide = area.filter(ImageFilter.MaxFilter(width))
        narrow = area.filter(ImageFilter.MinFilter(width))
        edge = (np.asarray(wide) != np.asarray(narrow)).astype(np.uint8) * 255
        image.paste(colour, mask=Image.fromarray(edge))


def colour_bar(width: int, height: int) -> Image.Image:
    """The heat scale standing upright, strongest on top."""
    column = scale()[::-1][:, None, :]
    return Image.fromarray(np.ascontiguousarray(column)).resize((width, height))
