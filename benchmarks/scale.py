"""What many images cost on many processes, and where more of them stop helping.

    python benchmarks/scale.py                               embedded model and scenes
    python benchmarks/scale.py --model DIR --images FOLDER --total 1000000

Three things are measured here: what a process takes to start, what each input takes (read,
explained, written), and what the first process takes for each record of the gallery at the end.
The rest is simulated: process r of n takes inputs r, r + n, ..., each as long as a measured one,
drawn at random; the last to finish is waited for, and the first reads all records.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from whyformer.cli import main as whyformer
from whyformer.demo.scenes import draw_scene
from whyformer.render.gallery import write_gallery

PROCESSES = (1, 4, 16, 64, 256, 1024, 4096)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo-vision")
    parser.add_argument("--images", type=Path, help="a folder (default: 60 scenes)")
    parser.add_argument("--total", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images = options.images or scenes(Path(folder) / "scenes", 60)
        start = starting()
        each, record = measured(images, Path(folder) / "maps", options.model)
    print(
        f"start {start:.1f} s; an input {np.median(each) * 1000:.0f} ms (median of {len(each)}, "
        f"slowest {each.max() * 1000:.0f}); a record of the gallery {record * 1000:.2f} ms"
    )
    print("| processes | hours | of these the gallery | share of the processes' time used |")
    print("|---|---|---|---|")
    for count in PROCESSES:
        work = simulated(each, options.total, count)
        gallery = options.total * record
        whole = start + work + gallery
        used = options.total * each.mean() / (count * whole)
        print(f"| {count} | {whole / 3600:.2f} | {gallery / 3600:.2f} | {used:.0%} |")


def scenes(folder: Path, count: int) -> Path:
    folder.mkdir()
    for seed in range(count):
        draw_scene(seed, 1).image.save(folder / f"{seed}.png")
    return folder


def starting() -> float:
    """Seconds until a process could explain."""
    began = time.perf_counter()
    code = "import torch, transformers, whyformer; whyformer.load('demo-vision')"
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def measured(images: Path, out: Path, model: str) -> tuple[np.ndarray, float]:
    """Seconds between the results of a real run, input by input; and those of a gallery's record.

    The first results, which come while everything is warming up, are left out.
    """
    command = ["explain", str(images), "--model", model, "--quiet", "--out", str(out)]
    if whyformer(command):
        sys.exit(f"not all of {images} could be explained")
    written = sorted(path.stat().st_mtime for path in out.rglob("*.png"))
    lines = (out / ".whyformer-records-0.jsonl").read_text().splitlines()
    began = time.perf_counter()
    write_gallery(out, (json.loads(line) for line in lines), None)
    return np.diff(written)[5:], (time.perf_counter() - began) / len(lines)


def simulated(each: np.ndarray, total: int, count: int) -> float:
    """Seconds until the slowest of the processes has done its share."""
    chance = np.random.default_rng(0)
    share = -(-total // count)
    if share > 10_000:  # a sum of so many draws is as good as normal
        return float(chance.normal(share * each.mean(), share**0.5 * each.std(), count).max())
    return float(max(chance.choice(each, share).sum() for _ in range(count)))


if __name__ == "__main__":
    main()
