"""Which part of a photo a model's preprocessing leaves: found by sending coordinates through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image
from torch import Tensor

from whyformer.photo import Crop

#: how far, in shares of a side, the preprocessing may be from a plain crop and resize
TOLERANCE = 0.03
#: so near to a photo's edge is its edge
SNAP = 0.005
#: pixels at the longer side of what is sent through the preprocessing
LARGEST = 1024


def crop_of(size: tuple[int, int], read: Callable[[Image.Image], Tensor]) -> Crop | None:
    """What is left of a photo of that size (width, height), or None where it is not a plain crop.

    Two pictures go through the preprocessing: one is brighter the further right, one the further
    down. What comes out tells where it came from. In place of a large photo two smaller ones are
    sent, as long as they agree.
    """
    width, height = size
    if max(size) > LARGEST:
        few = [crop_of(smaller(size, side), read) for side in (LARGEST, LARGEST // 2)]
        one, other = [crop and crop.scaled((height, width)) for crop in few]
        if one and other and near(one, other):
            return one
    across = np.broadcast_to(_ramp(width)[None, :, None], (height, width, 3))
    down = np.broadcast_to(_ramp(height)[:, None, None], (height, width, 3))
    columns = _ends(_sent(across, read).mean(0), width)
    rows = _ends(_sent(down, read).mean(1), height)
    if columns is None or rows is None:
        return None
    return Crop((height, width), (rows[0], columns[0], rows[1], columns[1]))


def smaller(size: tuple[int, int], side: int) -> tuple[int, int]:
    """The same shape, so long at its longer side."""
    width, height = (max(1, round(length * side / max(size))) for length in size)
    return width, height


def near(one: Crop, other: Crop) -> bool:
    apart = np.abs(np.subtract(one.box, other.box))
    return bool((apart / (one.size * 2) <= TOLERANCE / 2).all())


def _ramp(length: int) -> np.ndarray:
    """Every pixel's middle, from 0 to 255."""
    return ((np.arange(length) + 0.5) / length * 255).round().astype(np.uint8)


def _sent(pixels: np.ndarray, read: Callable[[Image.Image], Tensor]) -> np.ndarray:
    sent = read(Image.fromarray(np.ascontiguousarray(pixels)))
    return sent[0].mean(0).double().cpu().numpy()


def _ends(values: np.ndarray, length: int) -> tuple[int, int] | None:
    """Where a line begins and ends in the photo, in pixels; None where it is no straight line."""
    places = np.arange(len(values)) + 0.5
    inner = slice(len(values) // 8, -max(1, len(values) // 8))
    slope, start = np.polyfit(places[inner], values[inner], 1)
    if slope <= 0 or np.abs(start + slope * places[inner] - values[inner]).max() > TOLERANCE:
        return None
    ends = np.array([start, start + slope * len(values)])
    if ends[0] < -TOLERANCE or ends[1] > 1 + TOLERANCE:
        return None
    ends = np.where(np.abs(ends - ends.round()) < SNAP, ends.round(), ends)
    first, last = np.round(ends * length).clip(0, length).astype(int)
    return (int(first), int(last)) if last > first else None


def crop_note(crops: Sequence[Crop | None]) -> list[str]:
    """What the model did not see, said in a sentence."""
    cut = [crop for crop in crops if crop is not None and not crop.whole]
    if not cut:
        return []
    (height, width), (top, left, bottom, right) = cut[0].size, cut[0].box
    which = "the photo" if len(crops) == 1 else f"{len(cut)} of {len(crops)} photos"
    first = "it saw" if len(crops) == 1 else "of the first of them it saw"
    return [
        f"the model's preprocessing cuts {which}: {first} columns {left} to {right} of {width} and "
        f"rows {top} to {bottom} of {height}; nothing is said about the rest"
    ]
