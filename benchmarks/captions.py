"""Whose digit is it? demo-clip is asked about each of a scene's two digits by its name.

    python benchmarks/captions.py --scenes 100

Points: how often the named digit's pixels get more relevance than the other's. Inside: their share
of the positive relevance. Words: how often the two strongest words of a caption that names both
digits are their names. With 95 % intervals over scenes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
import torch
from tqdm import tqdm

import whyformer
from whyformer.demo.captions import NUMBERS, Captioned, draw_captioned, with_article
from whyformer.explanation import Explanation
from whyformer.models.pipeline import Recorded

METHODS = (
    "transformer_attribution", "generic_attention", "witness", "fullgrad", "gradient_x_input",
    "rollout", "raw_attention",
)  # fmt: skip
SEED = 99


def measure(recorded: Recorded, drawn: Captioned, method: str) -> dict[str, float]:
    """The texts are the two digits alone, and the caption of both."""
    points, inside = [], []
    masks = drawn.scene.masks
    for i in range(2):
        found = recorded.explain(i, method, matrix=False)
        heat = found.image_map(masks.shape[-2:])[0].clamp(min=0).numpy()
        own, other = float(heat[masks[i]].sum()), float(heat[masks[1 - i]].sum())
        points.append(0.5 if own == other else float(own > other))
        inside.append(own / (float(heat.sum()) or 1.0))
    caption = recorded.explain(2, method, matrix=False)
    return {"points": mean(points), "inside": mean(inside), "words": named(caption)}


def named(explanation: Explanation) -> float:
    """The share of digits' names among the two strongest words."""
    part = explanation.part("input_ids")
    assert part.pieces is not None
    scores = [
        (score, piece.text)
        for piece, score in zip(part.pieces[0], part.relevance[0].tolist(), strict=True)
        if piece.word is not None
    ]
    strongest = sorted(scores, key=lambda entry: -entry[0])[:2]
    return mean([float(word in NUMBERS) for _, word in strongest])


def mean(values: list[float]) -> float:
    return float(np.mean(values))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    why = whyformer.load("demo-clip")
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for number in tqdm(range(options.scenes), unit="scene"):
        drawn = draw_captioned([SEED, number])
        texts = [*(with_article(digit) for digit in drawn.scene.labels), drawn.caption]
        recorded = why.record(drawn.scene.image, text=texts)
        for method in METHODS:
            found[method].append(measure(recorded, drawn, method))
    print(f"| {options.scenes} scenes | points | inside | words |\n|---|---|---|---|")
    for method, records in found.items():
        cells = []
        for name in ("points", "inside", "words"):
            values = [100 * record[name] for record in records]
            half = 1.96 * np.std(values, ddof=1) / len(values) ** 0.5
            cells.append(f"{np.mean(values):.1f} ± {half:.1f}")
        print(f"| `{method}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
