"""The embedded image model: a small ViT with a convolutional stem.

A few convolutions before the first block (Xiao et al. 2021, "Early convolutions help transformers
see better") let so small a model learn from scratch; every token still stands for one patch. It
needs torch alone, so that it loads in a fraction of a second.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """What ``config.json`` holds."""

    labels: tuple[str, ...]
    side: int = 96
    patch: int = 8
    width: int = 96
    depth: int = 5
    heads: int = 4


class Stem(nn.Sequential):
    """Three convolutions that halve the image each: one output for each patch of eight pixels."""

    def __init__(self, width: int) -> None:
        super().__init__(
            nn.Conv2d(3, width // 4, 3, 2, 1),
            nn.GELU(),
            nn.Conv2d(width // 4, width // 2, 3, 2, 1),
            nn.GELU(),
            nn.Conv2d(width // 2, width, 3, 2, 1),
        )


class Block(nn.Module):
    """Attention and an MLP, each added to what goes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.gather = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.norm_1(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.gather(mixed)
        return x + self.narrow(F.gelu(self.widen(self.norm_2(x))))


class ViT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        patches = (config.side // config.patch) ** 2
        self.config = config
        self.stem = Stem(config.width)
        self.class_token = nn.Parameter(torch.randn(1, 1, config.width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, patches + 1, config.width) * 0.02)
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, len(config.labels))

    def embed(self, pixels: Tensor) -> Tensor:
        """(batch, 1 + patches, width): the class token, then the patches row by row."""
        patches = self.stem(pixels).flatten(2).transpose(1, 2)
        class_token = self.class_token.expand(len(patches), -1, -1)
        return torch.cat([class_token, patches], 1) + self.positions

    def classify(self, hidden: Tensor) -> Tensor:
        return self.head(self.norm(hidden)[:, 0])

    def forward(self, pixels: Tensor) -> Tensor:
        hidden = self.embed(pixels)
        for block in self.blocks:
            hidden = block(hidden)
        return self.classify(hidden)


def load_vit(folder: Path) -> ViT:
    """The model in float32 and evaluation mode."""
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = ViT(Config(**{**stored, "labels": tuple(stored["labels"])}))
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return model.float().eval()


def prepare(images: list[Image.Image], side: int) -> Tensor:
    """Pixels from -1 to 1, (batch, 3, side, side)."""
    arrays = [np.asarray(image.resize((side, side), Image.Resampling.BILINEAR)) for image in images]
    pixels = torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).float()
    return pixels / 127.5 - 1
