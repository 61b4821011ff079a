"""Masks as people draw them: black and white, or palettes of classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from whyformer.errors import InputError
from whyformer.files import FILE, what_is
from whyformer.models.image_files import MOST_PIXELS, read_image, readable

#: the value of pixels that PASCAL VOC's masks leave undecided
VOID = 255


def read_mask(path: Path) -> np.ndarray:
    """The foreground that a mask file draws."""
    if what_is(path) == FILE:
        with readable(str(path)), Image.open(path) as drawn:
            if drawn.mode == "P" and drawn.width * drawn.height <= MOST_PIXELS:
                return palette_mask(drawn)
    notes: list[str] = []
    image = read_image(path, notes)
    if notes:
        raise InputError(f"{path.name} is no plain mask: {notes[0]}")
    return two_valued(np.asarray(image.convert("L")), path.name)


def palette_mask(drawn: Image.Image) -> np.ndarray:
    """Values that stand for classes, unless the palette only paints black and white."""
    values = np.asarray(drawn)
    palette = np.asarray(drawn.getpalette("RGB"), np.uint8).reshape(-1, 3)
    used = np.unique(values)
    if used.max() < len(palette) and np.isin(palette[used], (0, 255)).all():
        painted = palette[used]
        if (painted == painted[:, :1]).all():
            return palette[values][..., 0] > 0
    return (values != 0) & (values != VOID)


def two_valued(drawn: np.ndarray, name: str) -> np.ndarray:
    """A mask is black and white; other values could mean anything."""
    between = ((drawn > 16) & (drawn < 239)).mean()
    classes = ((drawn > 0) & (drawn <= 16)).sum() > (drawn >= 239).sum()
    if between > 0.05 or classes or (drawn.max() > 0 and drawn.max() <= 127):
        raise InputError(
            f"{name} is no mask of black and white: its values go to {drawn.max()}, expected 0 "
            "and 255, or a palette image"
        )
    return drawn > 127
