"""What `whyformer explain FOLDER` takes beside its explanations: reading, drawing, the gallery.

    python benchmarks/folder.py                                  embedded model, 100 scenes
    python benchmarks/folder.py --model DIR --images FOLDER      at most --limit of them

The command, from its start to the gallery, against the same explanations, of pictures that are in
memory already: one after another and eight at a time in a running process, and eight at a time with
what any program does before its first one, imports and loading the model. Ratios within one run, of
seconds and of the processor's seconds: beside other programs only the latter mean much.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import whyformer
from whyformer.demo.scenes import draw_scene
from whyformer.memory import TOGETHER
from whyformer.models.image_files import read_image

#: seconds, and seconds of the processor
Cost = tuple[float, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo-vision")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    why = whyformer.load(options.model)
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given) / "images"
        folder.mkdir()
        gather(folder, options.images, options.limit)
        pictures = [why.read(read_image(path, [])) for path in sorted(folder.iterdir())]
        costs = defaultdict[str, list[Cost]](list)
        for turn in range(options.rounds):
            out = Path(given) / f"maps-{turn}"
            costs["the command"].append(cost(lambda out=out: command(folder, options.model, out)))
            costs["one by one"].append(cost(lambda: explain(why, pictures, 1)))
            together = cost(lambda: explain(why, pictures, TOGETHER))
            started = cost(lambda: start(options.model))
            costs["together"].append(together)
            costs["together, with the start"].append(
                (together[0] + started[0], together[1] + started[1])
            )
    print(f"{len(pictures)} pictures, median of {options.rounds}")
    whole = costs.pop("the command")
    print("the command: {:.1f} s, {:.1f} s of the processor".format(*median(whole)))
    for name, alone in costs.items():
        ratios = [(a / c, b / d) for (a, b), (c, d) in zip(whole, alone, strict=True)]
        print("explanations {}: {:.1f} s, {:.1f} s".format(name, *median(alone)), end="; ")
        print("the command takes {:.2f} and {:.2f} of that".format(*median(ratios)))


def median(costs: list[Cost]) -> Cost:
    wall, busy = zip(*costs, strict=True)
    return statistics.median(wall), statistics.median(busy)


def cost(call: Callable[[], Any]) -> Cost:
    """Of this process, and of the one that it started and waited for."""
    began, before = time.perf_counter(), busy()
    call()
    return time.perf_counter() - began, busy() - before


def busy() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def gather(folder: Path, images: Path | None, limit: int) -> None:
    if images is None:
        for seed in range(limit):
            draw_scene(seed, 1).image.save(folder / f"{seed}.png")
        return
    found = sorted(path for path in images.rglob("*") if path.suffix.lower() in (".jpg", ".png"))
    for number, path in enumerate(found[:limit]):
        os.symlink(path.resolve(), folder / f"{number}{path.suffix}")


def command(folder: Path, model: str, out: Path) -> None:
    words = ["explain", str(folder), "--model", model, "--quiet", "--out", str(out)]
    subprocess.run([sys.executable, "-m", "whyformer", *words], check=True)


def start(model: str) -> None:
    words = f"import whyformer; whyformer.load({model!r})"
    subprocess.run([sys.executable, "-c", words], check=True)


def explain(why: Any, pictures: list[Any], together: int) -> None:
    for first in range(0, len(pictures), together):
        why.record_picture(torch.cat(pictures[first : first + together])).explain()


if __name__ == "__main__":
    main()
