"""Train the embedded windowed model on digit scenes: `python training/swin.py`.

A small Swin of three stages learns which two digits a scene holds. At first the tokens of its
second stage are taught as well which digit they lie on, or none, from the scenes' exact masks
(their head is thrown away): a class for the whole scene alone teaches too slowly.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import SwinConfig, SwinForImageClassification, ViTImageProcessorPil

from loop import PACKAGE, fit, keep, saved
from pool import NONE, Pool, make_pool, mixed, shown
from whyformer.demo.scenes import SIDE, draw_scene

TEST_SEED = 1_000_003
PATCH, WINDOW = 6, 4
#: the stage whose tokens are taught, the pixels of one, and the share of the training
STAGE, TOKEN, TAUGHT = 2, 2 * PATCH, 0.7
#: how much a token of the ground counts beside one of a digit, of which there are fewer
GROUND = 0.2


def make_model(
    width: int = 48, depths: tuple[int, ...] = (2, 2, 2), heads: tuple[int, ...] = (3, 6, 12)
) -> SwinForImageClassification:
    config = SwinConfig(
        image_size=SIDE, patch_size=PATCH, embed_dim=width, depths=list(depths),
        num_heads=list(heads), window_size=WINDOW, mlp_ratio=2.0, drop_path_rate=0.0,
        initializer_range=0.08,
        id2label={i: str(i) for i in range(NONE)}, label2id={str(i): i for i in range(NONE)},
    )  # fmt: skip
    return SwinForImageClassification(config)


def make_processor() -> ViTImageProcessorPil:
    return ViTImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )


def train(
    model: SwinForImageClassification, pool: Pool, steps: int, batch: int, rate: float, seed: int
) -> list[float]:
    last = model.swin.encoder.layers[STAGE - 1].blocks[-1]
    width = last.layernorm_before.normalized_shape[0]
    token_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, NONE + 1))
    weights = torch.ones(NONE + 1)
    weights[NONE] = GROUND
    tokens: list[Tensor] = []
    hook = last.register_forward_hook(lambda _block, _given, told: tokens.append(told[0]))

    def loss_of(places: list[Tensor], progress: float) -> Tensor:
        pixels, patches = shown([pool], places)
        halves = F.one_hot(pool.labels[places[0]], NONE).float().mean(1)
        loss = F.cross_entropy(model(pixels).logits, halves)
        told = token_head(tokens.pop()).flatten(0, 1)
        if progress < TAUGHT:
            taught = F.cross_entropy(told, patches.flatten(), weights)
            loss = loss + 2 * (1 - progress / TAUGHT) * taught
        return loss

    losses = fit(
        nn.ModuleList([model, token_head]), mixed([pool], steps, batch, seed), steps, loss_of,
        rate=rate, log_every=100,
    )  # fmt: skip
    hook.remove()
    return losses


@torch.no_grad()
def accuracy(
    model: SwinForImageClassification, scenes: int, digits: int, split: str = "test"
) -> float:
    """How often a scene's digits are the surest ones; the test split's are ones that training
    never saw."""
    processor = make_processor()
    right = 0
    for start in range(0, scenes, 50):
        drawn = [
            draw_scene([TEST_SEED, i], digits, split) for i in range(start, min(start + 50, scenes))
        ]
        logits = model(**processor([scene.image for scene in drawn], return_tensors="pt")).logits
        surest = logits.topk(digits).indices.sort(-1).values
        right += int((surest == torch.tensor([sorted(s.labels) for s in drawn])).all(-1).sum())
    return right / scenes


CARD = """# demo-swin

A Swin that names the digits of a cluttered scene. In {tested} scenes with one digit that training
never saw, the surest class is the digit in **{single_right:.2f} %**; in {tested} scenes with two,
the two surest classes are the two digits in **{pair_right:.2f} %**.

- Model: `SwinForImageClassification`, {parameters:,} parameters: stages of {depths} blocks,
  {widths} wide, {heads} heads, windows of {window}x{window} that are shifted in every second block;
  {side}x{side} pixels in {cells}x{cells} patches, {last}x{last} tokens at the end. Stored in half
  precision.
- Data: {pair:,} scenes with two digits, shown {shown:,} times in all, drawn by
  `whyformer.demo.scenes` from four fifths of scikit-learn's `load_digits` (Alpaydin and Kaynak,
  Optical Recognition of Handwritten Digits, UCI, CC BY 4.0) on generated ground. The softmax is
  taught one half for each digit. Scenes with one are shown to it only to be named.
- Command: `python training/swin.py --steps {steps} --batch {batch} --rate {rate} --seed {seed}`.
  For {taught:.0%} of it the tokens of stage {stage} are also taught which digit they lie on.
- Use: to see what whyformer does with windows and stages, without a download. It knows nothing but
  these scenes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pair", type=int, default=10_000, help="scenes with two digits")
    parser.add_argument("--out", type=Path, default=PACKAGE / "swin")
    options = parser.parse_args()
    torch.manual_seed(options.seed)

    pool = make_pool(options.pair, 2, patch=TOKEN)
    model = make_model()
    train(model, pool, options.steps, options.batch, options.rate, options.seed)
    tested = 500
    single, pair = accuracy(model, tested, 1), accuracy(model, tested, 2)
    seen = accuracy(model, tested, 2, "train")
    print(f"unseen digits: one {single:.2%}, two {pair:.2%}; training's: two {seen:.2%}")
    config = model.config
    stages = range(len(config.depths))
    card = CARD.format(
        tested=tested, single_right=100 * single, pair_right=100 * pair,
        parameters=sum(p.numel() for p in model.parameters()),
        depths=listed(config.depths), widths=listed(config.embed_dim << i for i in stages),
        heads=listed(config.num_heads), window=WINDOW, side=SIDE, cells=SIDE // PATCH,
        last=SIDE // PATCH >> stages[-1], pair=options.pair,
        shown=options.steps * options.batch, steps=options.steps, batch=options.batch,
        rate=options.rate, seed=options.seed, taught=TAUGHT, stage=STAGE,
    )  # fmt: skip
    keep({**saved(model, make_processor()), "README.md": card}, options.out)


def listed(numbers: Iterable[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}"


if __name__ == "__main__":
    main()
