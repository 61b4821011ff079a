"""Digit scenes: real handwritten digits on cluttered ground, with the exact mask of each.

>>> scene = draw_scene(seed=7, count=2)
>>> scene.image.size, scene.labels, scene.masks.shape
((96, 96), (8, 0), (2, 96, 96))

A scene is a pure function of its arguments. The digits of ``split="test"`` appear in no training
scene.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

SIDE = 96
#: a digit's height in pixels
SMALLEST, LARGEST = 42, 56
#: how much brighter a digit is than the ground around it, at least
CONTRAST = 85
#: pixels between the digits of a scene, at least
APART = 5
#: every fifth digit is kept from training
HELD_OUT = 5
#: where a digit's edge lies, of its full ink
EDGE = 0.4
#: enlarged digits have this many pixels a side before they are turned and placed
MASTER = 64
#: a scene's quarters, row and column, around its middle
ROUND = ((0, 0), (0, 1), (1, 1), (1, 0))

Y, X = np.mgrid[:SIDE, :SIDE].astype(np.float32)


@dataclass(frozen=True)
class Scene:
    """An image, the digits in it, and the pixels of each: (digits, height, width)."""

    image: Image.Image
    labels: tuple[int, ...]
    masks: np.ndarray


def draw_scene(
    seed: int | Sequence[int], count: int = 1, split: str = "test", labels: Sequence[int] = ()
) -> Scene:
    """A scene of ``count`` different digits, or of the given ``labels``."""
    rng = np.random.default_rng(seed)
    chosen = tuple(labels) or tuple(int(i) for i in rng.permutation(10)[:count])
    ground = draw_ground(rng)
    masks: list[np.ndarray] = []
    for label in chosen:
        ink = place_digit(rng, pick_digit(rng, label, split), masks, crowded=len(chosen) > 1)
        colour = bright_colour(rng, ground, ink)
        ground = ground * (1 - ink[..., None]) + colour * ink[..., None]
        masks.append(ink > 0.5)
    grain = rng.standard_normal((SIDE, SIDE, 1), np.float32)
    noisy = ground + grain * np.float32(rng.uniform(0, 7))
    image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
    return Scene(image, chosen, np.stack(masks))


def draw_tidy(
    seed: int | Sequence[int], count: int = 2, split: str = "test", labels: Sequence[int] = ()
) -> Scene:
    """A scene that is easier to read: up to four digits, each in a quarter of its own beside the
    one before, on ground with light and shade alone."""
    rng = np.random.default_rng(seed)
    chosen = tuple(labels) or tuple(int(i) for i in rng.permutation(10)[:count])
    shade = sum(noise(rng, cells, rng.uniform(4, 12)) for cells in (3, 6))
    base = rng.uniform(30, 100) + rng.uniform(-25, 25, 3)
    ground: np.ndarray = np.stack([tint + shade for tint in base], -1).clip(0, 255)
    ground = ground.astype(np.float32)
    half = SIDE // 2
    start, turn = int(rng.integers(4)), int(rng.choice([-1, 1]))
    masks: list[np.ndarray] = []
    for number, label in enumerate(chosen):
        row, column = ROUND[(start + turn * number) % 4]
        high = int(rng.integers(SMALLEST, half - 1))
        stamp = Image.fromarray((pick_digit(rng, label, split) * 255).astype(np.uint8))
        stamp = stamp.rotate(rng.uniform(-8, 8), Image.Resampling.BICUBIC).resize((high, high))
        left, top = (int(i) for i in rng.integers(0, half - high + 1, 2))
        ink = np.zeros((SIDE, SIDE), np.float32)
        top, left = top + half * row, left + half * column
        ink[top : top + high, left : left + high] = np.asarray(stamp) / 255
        colour = bright_colour(rng, ground, ink)
        ground = ground * (1 - ink[..., None]) + colour * ink[..., None]
        masks.append(ink > 0.5)
    image = Image.fromarray(ground.clip(0, 255).astype(np.uint8))
    return Scene(image, chosen, np.stack(masks))


def boxes_of(scene: Scene) -> np.ndarray:
    """Each digit's box in pixels, (digits, 4): left, top, right, bottom; right and bottom are the
    first that it no longer covers."""
    boxes = []
    for mask in scene.masks:
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        boxes.append((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1))
    return np.array(boxes)


def draw_ground(rng: np.random.Generator) -> np.ndarray:
    """A tinted ground with light and shade, grain and stripes, and strokes lying about."""
    shade = sum(noise(rng, cells, rng.uniform(4, 20)) for cells in (6, 12, 24))
    if rng.random() < 0.5:
        angle, pitch = rng.uniform(0, np.pi), rng.uniform(6, 24)
        across = X * np.float32(np.cos(angle)) + Y * np.float32(np.sin(angle))
        shade = shade + np.sin(across * np.float32(2 * np.pi / pitch)) * rng.uniform(5, 20)
    base = rng.uniform(40, 120) + rng.uniform(-25, 25, 3)
    tints = [noise(rng, 3, 18) + tint for tint in base]
    picture = Image.merge("RGB", [to_grey(tint + shade) for tint in tints])
    pen = ImageDraw.Draw(picture)
    for _ in range(rng.integers(4, 12)):
        draw_clutter(rng, pen)
    return np.asarray(picture).astype(np.float32)


def noise(rng: np.random.Generator, cells: int, strength: float) -> np.ndarray:
    """Smooth noise around zero, with features a ``cells``-th of the scene wide."""
    small = to_grey(rng.normal(128, strength, (cells, cells)))
    large = small.resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.asarray(large).astype(np.float32) - 128


def to_grey(values: np.ndarray) -> Image.Image:
    return Image.fromarray(values.clip(0, 255).astype(np.uint8))


def draw_clutter(rng: np.random.Generator, pen: ImageDraw.ImageDraw) -> None:
    """One stroke, arc or shape: things that are no digit."""
    x, y = rng.uniform(-8, SIDE + 8, 2)
    width, height = rng.uniform(4, 30, 2)
    colour = tuple(int(c) for c in rng.uniform(30, 190) + rng.uniform(-35, 35, 3))
    box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    kind = rng.integers(4)
    if kind == 0:
        turn = rng.uniform(0, 2 * np.pi)
        end = (x + width * np.cos(turn), y + width * np.sin(turn))
        pen.line((x, y, *end), fill=colour, width=int(rng.integers(1, 5)))
    elif kind == 1:
        start = rng.uniform(0, 360)
        extent = rng.uniform(40, 160)
        pen.arc(box, start, start + extent, fill=colour, width=int(rng.integers(1, 5)))
    elif kind == 2:
        pen.ellipse(box, fill=colour)
    else:
        corners = rng.uniform(-1, 1, (int(rng.integers(3, 5)), 2)) * (width, height) / 2 + (x, y)
        pen.polygon([tuple(corner) for corner in corners], fill=colour)


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """1797 handwritten digits, 8x8, 0 to 16, and what they are."""
    with np.load(str(files("whyformer.demo") / "digits.npz")) as stored:
        return stored["images"], stored["labels"]


@cache
def digit_indices(label: int, split: str) -> np.ndarray:
    held_out = np.arange(len(digits()[1])) % HELD_OUT == 0
    return np.flatnonzero((digits()[1] == label) & (held_out == (split == "test")))


@cache
def enlarged(index: int) -> np.ndarray:
    """One digit smoothly enlarged: ink from 0 to 1, with soft edges."""
    small = Image.fromarray((digits()[0][index] * (255 / 16)).astype(np.uint8))
    framed = Image.new("L", (10, 10))
    framed.paste(small, (1, 1))
    return np.asarray(framed.resize((MASTER, MASTER), Image.Resampling.BICUBIC)) / 255


def pick_digit(rng: np.random.Generator, label: int, split: str) -> np.ndarray:
    """A digit with sharp edges. Training's are thicker, thinner and slanted, for variety."""
    soft = enlarged(int(rng.choice(digit_indices(label, split))))
    level = EDGE
    if split == "train":
        level += rng.uniform(-0.1, 0.1)
        slant = rng.uniform(-0.2, 0.2)
        shear = (1, slant, -slant * MASTER / 2, 0, 1, 0)
        drawn = Image.fromarray(soft.astype(np.float32))
        soft = np.asarray(
            drawn.transform(drawn.size, Image.Transform.AFFINE, shear, Image.Resampling.BILINEAR)
        )
    return ((soft - level) / 0.25).clip(0, 1)


def place_digit(
    rng: np.random.Generator, digit: np.ndarray, taken: list[np.ndarray], crowded: bool
) -> np.ndarray:
    """The digit turned, sized and put where no other digit lies: ink over the whole scene."""
    occupied = sum((widened(mask) for mask in taken), np.zeros((SIDE, SIDE), np.float32))
    best: np.ndarray = np.zeros((SIDE, SIDE), np.float32)
    least = np.inf
    stamp = Image.fromarray((digit * 255).astype(np.uint8))
    for _ in range(40):
        high = round(rng.uniform(SMALLEST, (SMALLEST + LARGEST) / 2 if crowded else LARGEST))
        wide = round(high * rng.uniform(0.85, 1.1))
        turned = stamp.rotate(rng.uniform(-12, 12), Image.Resampling.BICUBIC)
        turned = turned.resize((wide, high), Image.Resampling.BICUBIC)
        left, top = rng.integers(0, SIDE - wide + 1), rng.integers(0, SIDE - high + 1)
        layer = Image.new("L", (SIDE, SIDE))
        layer.paste(turned, (int(left), int(top)))
        ink = np.asarray(layer).astype(np.float32) / 255
        overlap = float((ink * occupied).sum())
        if overlap < least:
            best, least = ink, overlap
        if least == 0:
            break
    return best


def widened(mask: np.ndarray) -> np.ndarray:
    """The mask with a margin, so that neighbours stay apart."""
    grown = Image.fromarray(mask.astype(np.uint8)).filter(ImageFilter.MaxFilter(2 * APART + 1))
    return np.asarray(grown).astype(np.float32)


def bright_colour(rng: np.random.Generator, ground: np.ndarray, ink: np.ndarray) -> np.ndarray:
    """Brighter than the ground that the digit lies on, with a tint of its own."""
    around = float(ground[ink > 0.1].mean())
    value = rng.uniform(min(around + CONTRAST, 235), 245)
    return (value + rng.uniform(-20, 20, 3)).clip(0, 255).astype(np.float32)
