"""Shifted grids: the same question at copies moved by parts of a patch, for a finer map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from whyformer.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.methods.question import Answer, Question


def over_shifted_grids(
    question: Question, answer: Callable[[Question], Answer], steps: int, progress: bool = False
) -> Answer:
    """The mean of the maps of steps x steps copies of an image, each moved back.

    A patch's relevance lies evenly on its pixels; copies see every pixel in other patches, and
    their mean tells pixels apart that one grid cannot. What a move leaves empty repeats the
    image's edge and tells nothing.
    """
    from tqdm.auto import tqdm

    grid, size = question.tokens.grid, question.tokens.size
    if question.tokens.kind != "image" or grid is None or size is None or len(question.sites) > 1:
        raise InputError(
            f"shifts is {steps}, and only a model's one image can be shifted; leave shifts out"
        )
    patch = size[0] // grid[0], size[1] // grid[1]
    if (patch[0] * grid[0], patch[1] * grid[1]) != size or not reads_to_the_end(question):
        raise InputError(
            f"shifts is {steps}, and the model's {grid[0]} x {grid[1]} patches do not fill an "
            f"image of {size[0]} x {size[1]} pixels; leave shifts out"
        )
    if steps > min(patch):
        raise InputError(
            f"shifts is {steps}; a patch has {patch[0]} x {patch[1]} pixels to be shifted by: "
            f"expected at most {min(patch)}"
        )
    pixels = question.input
    total = pixels.new_zeros(len(pixels), *size)
    count = pixels.new_zeros(size)
    parts = [(step + 0.5) / steps - 0.5 for step in range(steps)]
    moves = [
        (round(down * patch[0]), round(over * patch[1])) for down, over in product(parts, parts)
    ]
    for move in tqdm(moves, desc="shifted grids", unit="copy", disable=not progress):
        patches = question.tokens.to_map(answer(question.at(moved(pixels, move))).relevance)
        found = spread(patches, size)
        rows, columns = (inside(step, length) for step, length in zip(move, size, strict=True))
        total[:, rows[1], columns[1]] += found[:, rows[0], columns[0]]
        count[rows[1], columns[1]] += 1
    mean = question.at_input((total / count).unsqueeze(1))
    return replace(mean, cells=(2 * steps * grid[0], 2 * steps * grid[1]))


def reads_to_the_end(question: Question) -> bool:
    """Whether patches reach the image's last row and column of pixels."""
    from whyformer.engine import GRADIENT

    patches = question.sites[0].values[0]
    start = [(patches, patches.new_ones(patches.shape))]
    (slope,) = question.trace.backward(GRADIENT, start, [question.roots[0]])
    return slope is not None and bool(slope[..., -1, :].any() and slope[..., -1].any())


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
