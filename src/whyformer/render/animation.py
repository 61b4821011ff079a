"""A video's maps as an animation: a picture for each frame, on one scale."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

from PIL import Image

from whyformer.errors import InputError
from whyformer.render.sheet import Sheet

#: how long a frame is shown, in milliseconds
EACH = 250


def frames_of(sheet: Sheet) -> list[Sheet]:
    """A sheet for each frame of the strip."""
    if sheet.kind != "video" or sheet.image is None:
        raise InputError(f"only a video becomes a .gif, and the input is a {sheet.kind}; try .png")
    width = sheet.image.width // sheet.frames
    columns = sheet.views[0].scores.shape[1] // sheet.frames
    found = []
    for i in range(sheet.frames):
        views = [
            replace(
                view,
                scores=view.scores[:, i * columns : (i + 1) * columns],
                rows=None,
                top=max(float(view.scores.max()), 0.0),
            )
            for view in sheet.views
        ]
        image = sheet.image.crop((i * width, 0, (i + 1) * width, sheet.image.height))
        title = f"frame {i + 1} of {sheet.frames}"
        found.append(replace(sheet, kind="image", image=image, views=views, part=title))
    return found


def gif(sheet: Sheet, draw: Callable[[Sheet], Image.Image]) -> bytes:
    """The frames as ``draw`` draws them, over and over."""
    first, *others = [draw(frame) for frame in frames_of(sheet)]
    buffer = io.BytesIO()
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=EACH, loop=0)
    return buffer.getvalue()
