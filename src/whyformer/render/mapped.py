"""An image with a view's map over it, in the size that is wanted.

Where the model saw only a part of a photo, the map lies in a frame on the whole of it.
"""

from __future__ import annotations

from PIL import Image, ImageDraw

from whyformer.photo import Crop
from whyformer.render.image import draw_frame, draw_seams, faded, overlay
from whyformer.render.look import Look
from whyformer.render.palettes import map_colours
from whyformer.render.sheet import Sheet, View


def crop_drawn(sheet: Sheet, look: Look) -> Crop | None:
    """What was seen of the photo, where the whole photo is drawn."""
    return sheet.crop if sheet.crop and sheet.crop.photo and not look.cropped else None


def ground_of(sheet: Sheet, look: Look) -> Image.Image:
    """What maps lie on: the picture as the model saw it, or the photo that it was cut out of."""
    crop = crop_drawn(sheet, look)
    ground = crop.photo if crop else sheet.image
    assert ground is not None
    return ground


def resized(ground: Image.Image, size: tuple[float, float]) -> Image.Image:
    """To (width, height), of a pixel at least."""
    width, height = (max(1, round(length)) for length in size)
    return ground.resize((width, height), Image.Resampling.BICUBIC)


def mapped(
    sheet: Sheet, view: View | None, look: Look, ground: Image.Image, line: int = 1
) -> Image.Image:
    """The ground, in the size that is wanted, with a view's map; without one, its frame alone."""
    crop = crop_drawn(sheet, look)
    if crop is None:
        return _with_map(ground, view, look, line, sheet.frames)
    top, left, bottom, right = crop.scaled((ground.height, ground.width)).box
    seen = _with_map(ground.crop((left, top, right, bottom)), view, look, line, sheet.frames)
    ground = faded(ground)
    pen = ImageDraw.Draw(ground)
    for width, colour in ((2 * line, (255, 255, 255)), (line, (32, 33, 36))):
        edge = left - width, top - width, right + width - 1, bottom + width - 1
        pen.rectangle(edge, fill=colour)
    ground.paste(seen, (left, top))
    return ground


def _with_map(
    image: Image.Image, view: View | None, look: Look, line: int, frames: int
) -> Image.Image:
    if view is None:
        image = image.copy()
        draw_seams(image, frames, line)
        return image
    shown = overlay(
        image,
        view.share,
        opacity=look.opacity,
        smooth=look.smooth,
        contour=look.contour,
        colours=map_colours(view.signed, look.colours),
        line=line,
        frames=frames,
    )
    draw_seams(shown, frames, line)
    if view.box is not None:
        draw_frame(shown, view.box, 2 * line)
    return shown
