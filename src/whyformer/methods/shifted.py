"""Shifted grids: the same question at copies moved by parts of a patch, for a finer map."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

from whyformer.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.methods.question import Answer, Question


def over_shifted_grids(
    question: Question, answer: Callable[[Question], Answer], steps: int
) -> Answer:
    """The mean of the maps of steps x steps copies of an image, each moved back.

    A patch's relevance lies evenly on its pixels; copies see every pixel in other patches, and
    their mean tells pixels apart that one grid cannot. What a move leaves empty repeats the
    image's edge and tells nothing.
    """
    grid, size = question.tokens.grid, question.tokens.size
    if question.tokens.kind != "image" or grid is None or size is None or len(question.sites) > 1:
        raise InputError(
            f"shifts is {steps}, and only a model's one image can be shifted; leave shifts out"
        )
    pixels = question.input
    total = pixels.new_zeros(len(pixels), *size)
    count = pixels.new_zeros(size)
    parts = [(step + 0.5) / steps - 0.5 for step in range(steps)]
    for down, over in product(parts, parts):
        move = (round(down * size[0] / grid[0]), round(over * size[1] / grid[1]))
        patches = question.tokens.to_map(answer(question.at(moved(pixels, move))).relevance)
        found = spread(patches, size)
        rows, columns = (inside(step, length) for step, length in zip(move, size, strict=True))
        total[:, rows[1], columns[1]] += found[:, rows[0], columns[0]]
        count[rows[1], columns[1]] += 1
    return question.at_input((total / count).unsqueeze(1))


def moved(pixels: Tensor, move: tuple[int, int]) -> Tensor:
    """The image moved down and to the right; the edge fills what is left empty."""
    import torch

    for axis, step in zip((-2, -1), move, strict=True):
        length = pixels.shape[axis]
        places = (torch.arange(length, device=pixels.device) - step).clamp(0, length - 1)
        pixels = pixels.index_select(axis, places)
    return pixels


def inside(step: int, length: int) -> tuple[slice, slice]:
    """Where a moved line holds the image, and which part of the image that is."""
    there = slice(max(step, 0), length + min(step, 0))
    return there, slice(there.start - step, there.stop - step)


def spread(patches: Tensor, size: tuple[int, int]) -> Tensor:
    """A patch's relevance evenly over its pixels: (batch, height, width), with the same sum."""
    import torch.nn.functional as F

    share = patches.shape[-2] * patches.shape[-1] / (size[0] * size[1])
    return F.interpolate(patches.unsqueeze(1), size, mode="nearest").squeeze(1) * share
