"""What `whyformer explain FOLDER` takes beside its explanations: reading, drawing, the gallery.

    python benchmarks/folder.py                                  embedded model, 100 scenes
    python benchmarks/folder.py --model DIR --images FOLDER      at most --limit of them

The command, from its start to the gallery, against the same explanations one after another in a
running process, of pictures that are in memory already. A ratio within one run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import whyformer
from whyformer.demo.scenes import draw_scene
from whyformer.models.images import read_image


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
        ratios = []
        for turn in range(options.rounds):
            whole = command(folder, options.model, Path(given) / f"maps-{turn}")
            bare = alone(why, pictures)
            ratios.append(whole / bare)
            print(f"the command {whole:.2f} s, its {len(pictures)} explanations alone {bare:.2f} s")
    print(f"ratio {statistics.median(ratios):.3f} (median of {options.rounds})")


def gather(folder: Path, images: Path | None, limit: int) -> None:
    if images is None:
        for seed in range(limit):
            draw_scene(seed, 1).image.save(folder / f"{seed}.png")
        return
    found = sorted(path for path in images.rglob("*") if path.suffix.lower() in (".jpg", ".png"))
    for number, path in enumerate(found[:limit]):
        os.symlink(path.resolve(), folder / f"{number}{path.suffix}")


def command(folder: Path, model: str, out: Path) -> float:
    began = time.perf_counter()
    words = ["explain", str(folder), "--model", model, "--quiet", "--out", str(out)]
    subprocess.run([sys.executable, "-m", "whyformer", *words], check=True)
    return time.perf_counter() - began


def alone(why: Any, pictures: list[Any]) -> float:
    began = time.perf_counter()
    for picture in pictures:
        why.record_picture(picture).explain()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
