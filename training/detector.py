"""Train the embedded detector on tidy digit scenes: `python training/detector.py`.

A small YOLOS, a plain ViT with detection tokens, learns the boxes and digits of scenes with one
and two digits, with the matching and the loss that transformers gives it. At first the patches of a
middle block are taught as well which digit they lie on, or none, from the scenes' exact masks
(their head is thrown away).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import YolosConfig, YolosForObjectDetection, YolosImageProcessorPil

from loop import PACKAGE, fit, keep, saved
from pool import NONE, Pool, make_pool, mixed, shown
from whyformer.demo.scenes import SIDE, boxes_of, draw_tidy

TEST_SEED = 1_000_003
PATCH = 16
#: the block whose patches are taught, for this share of the training
PATCH_BLOCK, TAUGHT = 3, 0.7
#: a detection counts above this score and with this overlap
SCORE, OVERLAP = 0.5, 0.5


def make_model(width: int = 96, depth: int = 4, seen: int = 5) -> YolosForObjectDetection:
    config = YolosConfig(
        hidden_size=width, num_hidden_layers=depth, num_attention_heads=4,
        intermediate_size=2 * width, image_size=[SIDE, SIDE], patch_size=PATCH,
        num_detection_tokens=seen, use_mid_position_embeddings=False, layer_norm_eps=1e-5,
        initializer_range=0.08,
        id2label={i: str(i) for i in range(NONE)}, label2id={str(i): i for i in range(NONE)},
    )  # fmt: skip
    model = YolosForObjectDetection(config)
    embeddings = model.vit.embeddings
    for free in (embeddings.cls_token, embeddings.detection_tokens, embeddings.position_embeddings):
        nn.init.normal_(free, std=0.5)
    return model


def make_processor() -> YolosImageProcessorPil:
    return YolosImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, resample=2, do_pad=False,
        image_mean=[0.5] * 3, image_std=[0.5] * 3,
    )  # fmt: skip


def train(
    model: YolosForObjectDetection,
    pools: list[Pool],
    steps: int,
    batch: int,
    rate: float,
    seed: int,
) -> list[float]:
    width = model.config.hidden_size
    patch_head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, NONE + 1))

    def loss_of(places: list[Tensor], progress: float) -> Tensor:
        pixels, patches = shown(pools, places)
        chosen = zip(pools, places, strict=True)
        labels = [label for pool, taken in chosen for label in told_of(pool, taken)]
        told = model(pixels, labels=labels, output_hidden_states=True)
        if progress >= TAUGHT:
            return told.loss
        hidden = told.hidden_states[PATCH_BLOCK][:, 1 : 1 + patches.shape[1]]
        taught = F.cross_entropy(patch_head(hidden).flatten(0, 1), patches.flatten())
        return told.loss + 4 * (1 - progress / TAUGHT) * taught

    return fit(
        nn.ModuleList([model, patch_head]), mixed(pools, steps, batch, seed), steps, loss_of,
        rate=rate, log_every=100,
    )  # fmt: skip


def told_of(pool: Pool, chosen: Tensor) -> list[dict[str, Tensor]]:
    """Digits and boxes (middle and size) as transformers' loss wants them."""
    corners = pool.boxes[chosen]
    first, last = corners[..., :2], corners[..., 2:]
    boxes = torch.cat([(first + last) / 2, last - first], -1)
    return [
        {"class_labels": digits, "boxes": box}
        for digits, box in zip(pool.labels[chosen], boxes, strict=True)
    ]


@torch.no_grad()
def recall(model: YolosForObjectDetection, scenes: int, split: str = "test") -> tuple[float, float]:
    """The share of digits found with the right class and box, and of detections that are right."""
    processor = make_processor()
    found = there = given = 0
    for start in range(0, scenes, 50):
        drawn = [
            draw_tidy([TEST_SEED, i], 1 + i % 2, split)
            for i in range(start, min(start + 50, scenes))
        ]
        told = model(**processor([scene.image for scene in drawn], return_tensors="pt"))
        sizes = [scene.image.size[::-1] for scene in drawn]
        answers = processor.post_process_object_detection(told, SCORE, sizes)
        for scene, answer in zip(drawn, answers, strict=True):
            boxes = torch.from_numpy(boxes_of(scene)).float()
            same = torch.tensor(scene.labels)[:, None] == answer["labels"]
            right = same & (overlaps(boxes, answer["boxes"]) >= OVERLAP)
            found += int(right.any(1).sum())
            there += len(scene.labels)
            given += len(answer["labels"])
    return found / there, found / max(given, 1)


def overlaps(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of every pair of boxes."""
    shared = (
        torch.minimum(first[:, None, 2:], second[:, 2:])
        - torch.maximum(first[:, None, :2], second[:, :2])
    ).clamp(min=0).prod(-1)  # fmt: skip
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (first, second)]
    return shared / (areas[0][:, None] + areas[1] - shared)


CARD = """# demo-detector

A YOLOS that finds the digits of a tidy scene. Of the digits in {tested} scenes with one or two
that training never saw, it finds **{recall:.2f} %** with the right class and a box that overlaps by
half (IoU 0.5) at a score above {score}; {precision:.2f} % of its detections are right.

- Model: `YolosForObjectDetection`, {parameters:,} parameters: {depth} blocks, {width} wide, 4
  heads; {side}x{side} pixels in {patches}x{patches} patches, {seen} detection tokens. Stored in
  half precision.
- Data: {pair:,} scenes with two digits and {single:,} with one, shown {shown:,} times in all, drawn
  by `whyformer.demo.scenes.draw_tidy` from four fifths of scikit-learn's `load_digits` (Alpaydin
  and Kaynak, Optical Recognition of Handwritten Digits, UCI, CC BY 4.0) on generated ground.
- Command: `python training/detector.py --steps {steps} --batch {batch} --rate {rate}
  --seed {seed}`. For {taught:.0%} of it the patches of block {block} are also taught which digit
  they lie on.
- Use: to see why a detector finds a box, without a download. It knows nothing but these scenes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--single", type=int, default=6000, help="scenes with one digit")
    parser.add_argument("--pair", type=int, default=12_000, help="scenes with two digits")
    parser.add_argument("--out", type=Path, default=PACKAGE / "detector")
    options = parser.parse_args()
    torch.manual_seed(options.seed)

    pools = [
        make_pool(n, digits, tidy=True, patch=PATCH)
        for n, digits in ((options.single, 1), (options.pair, 2))
    ]
    model = make_model()
    train(model, pools, options.steps, options.batch, options.rate, options.seed)
    tested = 1000
    measured, right = recall(model, tested)
    seen, _ = recall(model, tested, "train")
    print(f"recall {measured:.2%}, precision {right:.2%}; recall of training's digits {seen:.2%}")
    config = model.config
    card = CARD.format(
        tested=tested, recall=100 * measured, precision=100 * right, score=SCORE,
        parameters=sum(p.numel() for p in model.parameters()), depth=config.num_hidden_layers,
        width=config.hidden_size, side=SIDE, patches=SIDE // PATCH,
        seen=config.num_detection_tokens, pair=options.pair, single=options.single,
        shown=options.steps * options.batch, steps=options.steps, batch=options.batch,
        rate=options.rate, seed=options.seed, taught=TAUGHT, block=PATCH_BLOCK,
    )  # fmt: skip
    keep({**saved(model, make_processor()), "README.md": card}, options.out)


if __name__ == "__main__":
    main()
