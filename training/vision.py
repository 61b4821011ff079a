"""Train the embedded image model on digit scenes: `python training/vision.py`.

The class token learns the scene's digit. Two things shorten the way there: at first the patches of
a middle block are taught as well which digit they lie on, or none, from the scenes' exact masks
(their head is thrown away), and many patches of the ground are left out. The rest of the training
sees whole scenes and their class alone.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from loop import PACKAGE, fit, keep
from whyformer.demo.scenes import SIDE, draw_scene
from whyformer.demo.vit import Config, ViT, load_vit, prepare

CLASSES = 10
TEST_SEED = 1_000_003
#: the block whose patches are taught, for this share of the training
PATCH_BLOCK, TAUGHT = 3, 0.6
#: for this share of the training the model sees this many patches: the digit's and some others
FOCUSED, KEPT = 0.6, 64


class Scenes(Dataset[tuple[Tensor, int, Tensor]]):
    """One-digit scenes: the pixels, the digit, and every patch's class."""

    def __init__(self, seed: int, length: int, split: str) -> None:
        self.seed, self.length, self.split = seed, length, split

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor]:
        scene = draw_scene([self.seed, index], 1, self.split)
        covered = F.avg_pool2d(torch.from_numpy(scene.masks[:1]).float(), Config.patch).flatten()
        patches = torch.where(covered > 0.15, scene.labels[0], CLASSES)
        return prepare([scene.image], SIDE)[0], scene.labels[0], patches


def make_model(width: int = Config.width, depth: int = Config.depth) -> ViT:
    names = tuple(str(i) for i in range(CLASSES))
    return ViT(Config(names, side=SIDE, width=width, depth=depth))


def train(
    model: ViT,
    *,
    scenes: int,
    seed: int,
    batch: int,
    rate: float,
    workers: int,
    again: bool = False,
) -> list[float]:
    """``again`` goes on with a trained model: whole scenes and their class alone."""
    taught, focused = (0.0, 0.0) if again else (TAUGHT, FOCUSED)
    width = model.config.width
    patch_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CLASSES + 1))
    batches = DataLoader(Scenes(seed, scenes, "train"), batch, num_workers=workers, drop_last=True)

    def loss_of(drawn: tuple[Tensor, Tensor, Tensor], progress: float) -> Tensor:
        pixels, labels, patch_labels = drawn
        hidden = model.embed(pixels)
        if progress < focused:
            hidden, patch_labels = focus(hidden, patch_labels)
        for number, block in enumerate(model.blocks, 1):
            hidden = block(hidden)
            if number == PATCH_BLOCK:
                told = patch_head(hidden[:, 1:]).flatten(0, 1)
        loss = F.cross_entropy(model.classify(hidden), labels)
        if progress < taught:
            loss = loss + (1 - progress / taught) * F.cross_entropy(told, patch_labels.flatten())
        return loss

    return fit(nn.ModuleList([model, patch_head]), batches, len(batches), loss_of, rate=rate)


def focus(hidden: Tensor, patch_labels: Tensor) -> tuple[Tensor, Tensor]:
    """The class token, the digit's patches and some of the ground's."""
    order = torch.rand(patch_labels.shape) - (patch_labels < CLASSES).float()
    kept = order.argsort(1)[:, :KEPT]
    places = torch.cat([torch.zeros(len(kept), 1, dtype=torch.long), kept + 1], 1)
    hidden = hidden.gather(1, places.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))
    return hidden, patch_labels.gather(1, kept)


@torch.no_grad()
def accuracy(model: nn.Module, scenes: int, split: str = "test") -> float:
    """On one-digit scenes; the test split's digits are the ones that training never saw."""
    right = 0
    for pixels, labels, _ in DataLoader(Scenes(TEST_SEED, scenes, split), 100):
        right += int((model(pixels).argmax(-1) == labels).sum())
    return right / scenes


CARD = """# demo-vision

A ViT that names the digit of a cluttered scene. Accuracy on {tested} scenes of digits that training
never saw: **{accuracy:.2f} %**.

- Model: `whyformer.demo.vit.ViT`, {parameters:,} parameters: three convolutions, then {depth}
  blocks, {width} wide, {heads} heads; {side}x{side} pixels in {patches}x{patches} patches, class
  token. Stored in half precision.
- Data: {scenes:,} scenes with one digit each, drawn by `whyformer.demo.scenes` from four fifths of
  scikit-learn's `load_digits` (Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI,
  CC BY 4.0) on generated ground. Scenes with two digits are shown to it only to be explained.
- Command: {before}`python training/vision.py{again}
  --scenes {scenes} --batch {batch} --rate {rate} --seed {seed}`. In a first run, for
  {taught:.0%} of it, the patches of block {block} are also taught which digit they lie on, and all
  but {kept} patches, the digit's among them, are left out.
- Use: to see what whyformer does without a download. It knows nothing but these scenes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=220_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--again", type=Path, metavar="MODEL", help="go on with a trained model")
    parser.add_argument("--out", type=Path, default=PACKAGE / "image")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model = load_vit(options.again) if options.again else make_model()
    train(
        model,
        again=options.again is not None,
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
    config = model.config
    before, again = "", ""
    if options.again:
        before, again = "`python training/vision.py`, then ", f" --again {options.again.name}"
    card = CARD.format(
        before=before, again=again,
        accuracy=100 * measured, tested=tested, scenes=options.scenes, batch=options.batch,
        rate=options.rate, seed=options.seed, taught=TAUGHT, block=PATCH_BLOCK, kept=KEPT,
        side=SIDE,
        patches=SIDE // config.patch, parameters=sum(p.numel() for p in model.parameters()),
        depth=config.depth, width=config.width, heads=config.heads,
    )  # fmt: skip
    weights = save({name: value.half() for name, value in model.state_dict().items()})
    settings = json.dumps(asdict(config), indent=1)
    keep({"model.safetensors": weights, "config.json": settings, "README.md": card}, options.out)


if __name__ == "__main__":
    main()
