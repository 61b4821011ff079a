"""Digit scenes that are drawn once and shown many times: drawing one costs as much as learning it.

A pool is a pure function of what is asked for; it is kept in `build/` and read from there
by every training that wants the same one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm.auto import tqdm

from whyformer.demo.scenes import SIDE, Scene, boxes_of, draw_scene, draw_tidy
from whyformer.files import write_whole

#: the patch class that is no digit
NONE = 10
#: the share of a patch that a digit must cover to be its class
COVERED = 0.15
KEPT = Path(__file__).resolve().parents[1] / "build" / "pools"


@dataclass(frozen=True)
class Pool:
    """Pixels (scenes, 3, side, side) in bytes, digits, boxes (left, top, right, bottom, from 0 to
    1), and every patch's class."""

    pixels: Tensor
    labels: Tensor
    boxes: Tensor
    patches: Tensor

    def __len__(self) -> int:
        return len(self.labels)


def make_pool(
    scenes: int, digits: int, *, tidy: bool = False, side: int = SIDE, patch: int = 8
) -> Pool:
    """Training scenes, made ``side`` pixels wide and high, in patches of ``patch``."""
    kind = "tidy" if tidy else "cluttered"
    path = KEPT / f"{scenes}-{kind}-scenes-{digits}-digits-{side}-pixels-patches-of-{patch}.npz"
    draw = draw_tidy if tidy else draw_scene
    if not path.exists():
        drawn = [
            measured(draw([0, digits, index], digits, "train"), side, patch)
            for index in tqdm(range(scenes), mininterval=10, desc="drawing")
        ]
        columns = [np.stack(column) for column in zip(*drawn, strict=True)]
        packed = io.BytesIO()
        np.savez(packed, pixels=columns[0], labels=columns[1], boxes=columns[2], patches=columns[3])
        write_whole(path, packed.getvalue())
    with np.load(path) as stored:
        return Pool(
            torch.from_numpy(stored["pixels"]),
            torch.from_numpy(stored["labels"]).long(),
            torch.from_numpy(stored["boxes"]),
            torch.from_numpy(stored["patches"]).long(),
        )


def measured(
    scene: Scene, side: int, patch: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A scene's pixels, labels, boxes and patches."""
    small = np.asarray(scene.image.resize((side, side), Image.Resampling.BILINEAR))
    cells = side // patch
    size = SIDE // cells
    covered = scene.masks.reshape(len(scene.labels), cells, size, cells, size).mean((2, 4))
    first = covered.argmax(0)
    patches = np.where(covered.max(0) > COVERED, np.array(scene.labels)[first], NONE)
    return (
        small.transpose(2, 0, 1),
        np.array(scene.labels, np.uint8),
        (boxes_of(scene) / SIDE).astype(np.float32),
        patches.astype(np.uint8).ravel(),
    )


def normalised(pixels: Tensor) -> Tensor:
    """From bytes to -1 to 1, as the processors do."""
    return pixels.float() / 127.5 - 1


def varied(pixels: Tensor) -> Tensor:
    """Pixels from -1 to 1 with a light and a tint of their own, so that a pool lasts longer."""
    count = len(pixels)
    light = 1 + 0.15 * torch.randn(count, 1, 1, 1)
    tint = 0.1 * torch.randn(count, 3, 1, 1)
    return (pixels * light + tint + 0.03 * torch.randn(pixels.shape)).clamp(-1, 1)


def mixed(pools: list[Pool], steps: int, batch: int, seed: int) -> Iterator[list[Tensor]]:
    """For every step the same number of places of each pool; each comes once before any again."""
    chance = torch.Generator().manual_seed(seed)
    share = batch // len(pools)
    orders = [torch.empty(0, dtype=torch.long) for _ in pools]
    for _ in range(steps):
        for place, pool in enumerate(pools):
            if len(orders[place]) < share:
                orders[place] = torch.randperm(len(pool), generator=chance)
        yield [order[:share] for order in orders]
        orders = [order[share:] for order in orders]


def shown(pools: list[Pool], places: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Those scenes' varied pixels and their patches' classes, pool after pool."""
    chosen = list(zip(pools, places, strict=True))
    pixels = torch.cat([pool.pixels[taken] for pool, taken in chosen])
    patches = torch.cat([pool.patches[taken] for pool, taken in chosen])
    return varied(normalised(pixels)), patches
