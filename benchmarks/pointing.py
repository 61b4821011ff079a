"""The class-specific pointing game on digit scenes: `python benchmarks/pointing.py`.

Every scene holds two different digits that training never saw. Each method is asked about each
digit. `inside` is the share of positive relevance that falls on the asked digit's own pixels,
`other` the share on the other digit's; `points` is how often the asked digit gets more than the
other. A method that cannot tell classes apart points right half of the time.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from tqdm.auto import tqdm

import whyformer
from whyformer.demo.scenes import SIDE, draw_scene

SEED = 2_000_003


def play(
    why: whyformer.Pipeline, names: list[str], scenes: int, preset: str
) -> dict[str, np.ndarray]:
    """For every method (questions, 2): shares on the asked digit and on the other one."""
    shares: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in tqdm(range(scenes), desc="scenes"):
        scene = draw_scene([SEED, number], 2)
        masks = torch.from_numpy(scene.masks).double()
        recorded = why.record(scene.image)
        for name in names:
            method = whyformer.methods()[name]
            quiet = {"progress": False} if "progress" in method.options else {}
            target = list(scene.labels) if method.class_specific else None
            explanation = recorded.explain(target, name, preset, matrix=False, **quiet)
            maps = explanation.image_map((SIDE, SIDE)).double().clamp(min=0).reshape(-1, SIDE, SIDE)
            for asked, heat in enumerate(maps.expand(2, -1, -1)):
                total = float(heat.sum()) or 1.0
                inside = (masks * heat).sum((1, 2)) / total
                shares[name].append((float(inside[asked]), float(inside[1 - asked])))
    return {name: np.array(found) for name, found in shares.items()}


def top_two(why: whyformer.Pipeline, scenes: int) -> float:
    """How often the model's two best classes are the scene's two digits."""
    right = 0
    for number in range(scenes):
        scene = draw_scene([SEED, number], 2)
        best = why.record(scene.image).logits[0].topk(2).indices.tolist()
        right += set(best) == set(scene.labels)
    return right / scenes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--model", default="demo-vision")
    parser.add_argument("--preset", default="stable")
    parser.add_argument("--method", action="append", help="only these (default: all)")
    options = parser.parse_args()
    why = whyformer.load(options.model)
    names = options.method or list(whyformer.methods())
    shares = play(why, names, options.scenes, options.preset)
    areas = [draw_scene([SEED, i], 2).masks.mean() for i in range(options.scenes)]
    print(
        f"{options.scenes} scenes of two digits, {options.model}, preset {options.preset}; both "
        f"digits are the model's best two in {top_two(why, options.scenes):.0%}; a digit covers "
        f"{np.mean(areas):.1%} of its scene\n"
    )
    print("| method | inside | other | points |")
    print("|---|---|---|---|")
    order = sorted(shares, key=lambda name: -shares[name][:, 0].mean())
    for name in order:
        asked, other = shares[name].T
        points = np.where(asked == other, 0.5, asked > other).mean()
        print(f"| `{name}` | {asked.mean():.1%} | {other.mean():.1%} | {points:.1%} |")


if __name__ == "__main__":
    main()
