"""Tiny video classifiers with real processors, and frames for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from small_sounds import SMALL
from small_texts import stir

SIZES: dict[str, Any] = {
    **SMALL, "num_frames": 4, "image_size": 32, "num_labels": 2,
    "id2label": {0: "still", 1: "moving"}, "label2id": {"still": 0, "moving": 1},
}  # fmt: skip
#: the model's prefix, settings of its own, and its processor
VIDEOS: dict[str, tuple[str, dict[str, Any], str]] = {
    "videomae": ("VideoMAE", {"patch_size": 8, "tubelet_size": 2}, "VideoMAEImageProcessorPil"),
    "timesformer": ("Timesformer", {"patch_size": 8}, "VideoMAEImageProcessorPil"),
    "vivit": ("Vivit", {"tubelet_size": [2, 8, 8]}, "VivitImageProcessor"),
}


def save_video(folder: Path, family: str = "videomae") -> Path:
    name, own, processor = VIDEOS[family]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **own)
    model = getattr(transformers, f"{name}ForVideoClassification")(config)
    stir(model)
    model.save_pretrained(folder)
    edge = {"shortest_edge": 32}
    getattr(transformers, processor)(
        size=edge, crop_size={"height": 32, "width": 32}
    ).save_pretrained(folder)
    return folder


def ball(count: int = 8, side: int = 48) -> list[Image.Image]:
    """A bright ball that goes from left to right."""
    y, x = np.mgrid[:side, :side]
    frames = []
    for i in range(count):
        at = side * (0.15 + 0.7 * i / max(1, count - 1))
        bright = ((x - at) ** 2 + (y - side / 2) ** 2 < (side / 8) ** 2) * 200 + 30
        frames.append(Image.fromarray(np.stack([bright, bright, x * 2 + 40], -1).astype(np.uint8)))
    return frames


def write_frames(folder: Path, frames: list[Image.Image]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i, frame in enumerate(frames):
        frame.save(folder / f"{i:03d}.png")
    return folder


def write_gif(path: Path, frames: list[Image.Image]) -> Path:
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=80)
    return path
