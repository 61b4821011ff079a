"""Train the embedded image model on digit scenes: `python training/vision.py`.

The class token learns the scene's digit. Two things shorten the way there, both thrown away in
the end: patches of a middle block are taught which digit they lie on, or none, from the scenes'
exact masks; and at first most patches of the ground are left out. The rest of the training sees
whole scenes and the class alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

from loop import PACKAGE, fit, keep
from whyformer.demo.scenes import SIDE, draw_scene

PATCH, CLASSES = 8, 10
TEST_SEED = 1_000_003
#: the block whose patches are taught; the class token gathers in those after it
PATCH_BLOCK = 4
#: the shares of the training with taught patches, and with few patches of the ground
TAUGHT, FOCUSED = 0.7, 0.6
#: patches that the model sees while focused
KEPT = 56


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


def train(
    model: ViTForImageClassification,
    *,
    scenes: int,
    seed: int,
    batch: int,
    rate: float,
    workers: int,
) -> list[float]:
    width = model.config.hidden_size
    patch_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CLASSES + 1))
    batches = DataLoader(Scenes(seed, scenes, "train"), batch, num_workers=workers, drop_last=True)

    def loss_of(drawn: tuple[Tensor, Tensor, Tensor], progress: float) -> Tensor:
        pixels, labels, patch_labels = drawn
        hidden = model.vit.embeddings(pixels)
        if progress < FOCUSED:
            hidden, patch_labels = focus(hidden, patch_labels)
        for number, block in enumerate(model.vit.layers, 1):
            hidden = block(hidden)
            if number == PATCH_BLOCK:
                told = patch_head(hidden[:, 1:]).flatten(0, 1)
        class_token = model.vit.layernorm(hidden)[:, 0]
        loss = F.cross_entropy(model.classifier(class_token), labels)
        if progress < TAUGHT:
            loss = loss + (1 - progress / TAUGHT) * F.cross_entropy(told, patch_labels.flatten())
        return loss

    return fit(nn.ModuleList([model, patch_head]), batches, len(batches), loss_of, rate=rate)


def focus(hidden: Tensor, patch_labels: Tensor) -> tuple[Tensor, Tensor]:
    """The class token, the digit's patches and some of the ground's: KEPT in all."""
    order = torch.rand(patch_labels.shape) - (patch_labels < CLASSES).float()
    kept = order.argsort(1)[:, :KEPT]
    places = torch.cat([torch.zeros(len(kept), 1, dtype=torch.long), kept + 1], 1)
    hidden = hidden.gather(1, places.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
    return hidden, patch_labels.gather(1, kept)


@torch.no_grad()
def accuracy(model: ViTForImageClassification, scenes: int, split: str = "test") -> float:
    """On one-digit scenes; the split's digits are the ones that training never saw."""
    right = 0
    for pixels, labels, _ in DataLoader(Scenes(TEST_SEED, scenes, split), 100):
        right += int((model(pixels).logits.argmax(-1) == labels).sum())
    return right / scenes


CARD = """# demo-vision

A ViT that names the digit of a cluttered scene. Accuracy on {tested} scenes of digits that training
never saw: **{accuracy:.2f} %**.

- Model: `ViTForImageClassification`, {parameters:,} parameters: {depth} blocks, {width} wide,
  {heads} heads; {side}x{side} pixels in {patches}x{patches} patches, class token. Stored in half
  precision.
- Data: {scenes:,} scenes with one digit each, drawn by `whyformer.demo.scenes` from four fifths of
  scikit-learn's `load_digits` (Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI,
  CC BY 4.0) on generated ground. Scenes with two digits are shown to it only to be explained.
- Command: `python training/vision.py --scenes {scenes} --batch {batch} --rate {rate}
  --seed {seed}`. For {taught:.0%} of the training the patches of block {block} are also taught
  which digit they lie on, and for {focused:.0%} most patches of the ground are left out; the rest
  sees whole scenes and their class alone.
- Use: to see what whyformer does without a download. It knows nothing but these scenes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=PACKAGE / "image")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model = make_model()
    train(
        model,
        scenes=options.scenes,
        seed=options.seed,
        batch=options.batch,
        rate=options.rate,
        workers=options.workers,
    )
    tested = 2000
    measured = accuracy(model, tested)
    seen = accuracy(model, tested, "train")
    print(f"accuracy on unseen digits {measured:.2%}, on training's digits {seen:.2%}")
    keep(
        model,
        ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}),
        CARD.format(
            accuracy=100 * measured, tested=tested, scenes=options.scenes, batch=options.batch,
            rate=options.rate, seed=options.seed, taught=TAUGHT, focused=FOCUSED,
            block=PATCH_BLOCK, side=SIDE,
            patches=SIDE // PATCH, parameters=sum(p.numel() for p in model.parameters()),
            depth=model.config.num_hidden_layers, width=model.config.hidden_size,
            heads=model.config.num_attention_heads,
        ),
        options.out,
    )  # fmt: skip


if __name__ == "__main__":
    main()
