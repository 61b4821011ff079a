"""Train the embedded image model on digit scenes: `python training/vision.py`.

The class token learns the scene's digit. In the first half of the training every patch learns as
well which digit it lies on, or none, from the scenes' exact masks: that head is thrown away.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from loop import PACKAGE, fit, keep
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

from whyformer.demo.scenes import SIDE, draw_scene

PATCH, CLASSES = 8, 10
TEST_SEED = 1_000_003
#: the block whose patches are taught; the class token gathers in those after it
PATCH_BLOCK = 4


class Scenes(Dataset[tuple[Tensor, int, Tensor]]):
    """One-digit scenes: pixels from -1 to 1, the digit, and every patch's class."""

    def __init__(self, seed: int, length: int, split: str) -> None:
        self.seed, self.length, self.split = seed, length, split

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor]:
        scene = draw_scene([self.seed, index], 1, self.split)
        pixels = torch.from_numpy(np.array(scene.image)).permute(2, 0, 1) / 127.5 - 1
        covered = F.avg_pool2d(torch.from_numpy(scene.masks[:1]).float(), PATCH).flatten()
        patches = torch.where(covered > 0.15, scene.labels[0], CLASSES)
        return pixels, scene.labels[0], patches


def make_model(width: int = 96, depth: int = 6, heads: int = 4) -> ViTForImageClassification:
    names = {i: str(i) for i in range(CLASSES)}
    config = ViTConfig(
        image_size=SIDE, patch_size=PATCH, hidden_size=width, num_hidden_layers=depth,
        num_attention_heads=heads, intermediate_size=2 * width,
        id2label=names, label2id={name: i for i, name in names.items()},
    )  # fmt: skip
    return ViTForImageClassification(config)


def train(model: ViTForImageClassification, scenes: int, seed: int, batch: int, rate: float,
          workers: int, patches: bool) -> list[float]:  # fmt: skip
    width = model.config.hidden_size
    patch_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CLASSES + 1))
    batches = DataLoader(Scenes(seed, scenes, "train"), batch, num_workers=workers, drop_last=True)

    def loss_of(drawn: tuple[Tensor, Tensor, Tensor], progress: float) -> Tensor:
        pixels, labels, patch_labels = drawn
        output = model.vit(pixels, output_hidden_states=True)
        loss = F.cross_entropy(model.classifier(output.last_hidden_state[:, 0]), labels)
        if progress < 0.5 and patches:
            share = 1 - 2 * progress
            told = patch_head(output.hidden_states[PATCH_BLOCK][:, 1:]).flatten(0, 1)
            loss = loss + share * F.cross_entropy(told, patch_labels.flatten())
        return loss

    return fit(nn.ModuleList([model, patch_head]), batches, len(batches), loss_of, rate=rate)


@torch.no_grad()
def accuracy(model: ViTForImageClassification, scenes: int, split: str = "test") -> float:
    """On one-digit scenes; the split's digits are the ones that training never saw."""
    right = 0
    for pixels, labels, _ in DataLoader(Scenes(TEST_SEED, scenes, split), 100):
        right += int((model(pixels).logits.argmax(-1) == labels).sum())
    return right / scenes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--no-patches", action="store_true")
    parser.add_argument("--out", type=Path, default=PACKAGE / "vision")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model = make_model(options.width)
    train(model, options.scenes, options.seed, options.batch, options.rate, options.workers,
          not options.no_patches)  # fmt: skip
    measured = accuracy(model, 2000)
    print(
        f"accuracy on unseen digits: {measured:.2%}; on training digits {accuracy(model, 1000, 'train'):.2%}"
    )
    processor = ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})
    keep(model, processor, "", options.out)


if __name__ == "__main__":
    main()
