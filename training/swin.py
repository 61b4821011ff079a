"""Train the embedded windowed model on tidy digit scenes: `python training/swin.py`.

A small Swin of two stages learns a scene's digit. At first its last tokens are taught as well which
digit they lie on, or none, from the scenes' exact masks (their head is thrown away).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import SwinConfig, SwinForImageClassification, ViTImageProcessorPil

from loop import PACKAGE, fit, keep, saved
from pool import NONE, Pool, make_pool, mixed, shown
from whyformer.demo.scenes import draw_tidy

#: the model reads scenes of 96 pixels made smaller
READ, PATCH = 64, 8
TEST_SEED = 1_000_003
#: the share of the training in which tokens are taught
TAUGHT = 0.6


def make_model(width: int = 48, depths: tuple[int, ...] = (2, 4)) -> SwinForImageClassification:
    config = SwinConfig(
        image_size=READ, patch_size=PATCH // 2, embed_dim=width, depths=list(depths),
        num_heads=[3, 6], window_size=4, mlp_ratio=2.0, drop_path_rate=0.0, layer_norm_eps=1e-5,
        initializer_range=0.1,
        id2label={i: str(i) for i in range(NONE)}, label2id={str(i): i for i in range(NONE)},
    )  # fmt: skip
    return SwinForImageClassification(config)


def make_processor() -> ViTImageProcessorPil:
    return ViTImageProcessorPil(
        size={"height": READ, "width": READ}, resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )


def train(
    model: SwinForImageClassification, pool: Pool, steps: int, batch: int, rate: float, seed: int
) -> list[float]:
    token_head = nn.Linear(model.swin.num_features, NONE + 1)

    def loss_of(places: list[Tensor], progress: float) -> Tensor:
        pixels, patches = shown([pool], places)
        told = model.swin(pixels)
        loss = F.cross_entropy(model.classifier(told.pooler_output), pool.labels[places[0], 0])
        if progress < TAUGHT:
            tokens = token_head(told.last_hidden_state).flatten(0, 1)
            taught = F.cross_entropy(tokens, patches.flatten())
            loss = loss + 2 * (1 - progress / TAUGHT) * taught
        return loss

    batches = mixed([pool], steps, batch, seed)
    return fit(
        nn.ModuleList([model, token_head]), batches, steps, loss_of, rate=rate, log_every=100
    )


@torch.no_grad()
def accuracy(model: SwinForImageClassification, scenes: int, split: str = "test") -> float:
    """On one-digit scenes; the test split's digits are the ones that training never saw."""
    processor = make_processor()
    right = 0
    for start in range(0, scenes, 50):
        drawn = [draw_tidy([TEST_SEED, i], 1, split) for i in range(start, min(start + 50, scenes))]
        logits = model(**processor([scene.image for scene in drawn], return_tensors="pt")).logits
        right += int((logits.argmax(-1) == torch.tensor([s.labels[0] for s in drawn])).sum())
    return right / scenes


CARD = """# demo-swin

A Swin that names the digit of a tidy scene. Accuracy on {tested} scenes of digits that
training never saw: **{accuracy:.2f} %**.

- Model: `SwinForImageClassification`, {parameters:,} parameters: stages of {depths} blocks, {width}
  and {last} wide, windows of 4x4; scenes made {side}x{side} pixels, patches of {patch},
  {cells}x{cells} tokens at the end. Stored in half precision.
- Data: {single:,} scenes with one digit each, shown {shown:,} times in all, drawn by
  `whyformer.demo.scenes.draw_tidy` from four fifths of scikit-learn's `load_digits` (Alpaydin and
  Kaynak, Optical Recognition of Handwritten Digits, UCI, CC BY 4.0) on generated ground. Scenes
  with two digits are shown to it only to be explained.
- Command: `python training/swin.py --steps {steps} --batch {batch} --rate {rate} --seed {seed}`.
  For {taught:.0%} of it the last tokens are also taught which digit they lie on.
- Use: to see what whyformer does with windows and stages, without a download. It knows nothing but
  these scenes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--single", type=int, default=10_000, help="scenes with one digit")
    parser.add_argument("--out", type=Path, default=PACKAGE / "swin")
    options = parser.parse_args()
    torch.manual_seed(options.seed)

    model = make_model()
    pool = make_pool(options.single, 1, tidy=True, side=READ, patch=PATCH)
    train(model, pool, options.steps, options.batch, options.rate, options.seed)
    tested = 2000
    measured, seen = accuracy(model, tested), accuracy(model, tested, "train")
    print(f"accuracy on unseen digits {measured:.2%}, on training's digits {seen:.2%}")
    config = model.config
    card = CARD.format(
        tested=tested, accuracy=100 * measured, single=options.single, side=READ,
        parameters=sum(p.numel() for p in model.parameters()),
        depths=" and ".join(map(str, config.depths)), width=config.embed_dim,
        last=model.swin.num_features, patch=config.patch_size, cells=READ // PATCH,
        shown=options.steps * options.batch, steps=options.steps, batch=options.batch,
        rate=options.rate, seed=options.seed, taught=TAUGHT,
    )  # fmt: skip
    keep({**saved(model, make_processor()), "README.md": card}, options.out)


if __name__ == "__main__":
    main()
