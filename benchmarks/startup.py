"""What the command line adds to Python's own start: `python benchmarks/startup.py`.

Compares `whyformer explain SCENE` with the embedded model, from start to picture, with a bare
`import torch, transformers` plus one explanation in a running process. The ratio is what counts:
it should stay below 1.3. Runs alternate, and the fastest of each is taken.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from whyformer.demo.scenes import draw_scene


def seconds(*command: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def one_explanation(scene: Path) -> float:
    import whyformer

    why = whyformer.load("demo-vision")
    why(scene)
    started = time.perf_counter()
    why(scene)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene, out = Path(folder) / "scene.png", Path(folder) / "why.png"
        draw_scene(7, 2).image.save(scene)
        bare, whole = [], []
        for _ in range(options.rounds):
            bare.append(seconds("-c", "import torch, transformers"))
            whole.append(
                seconds("-m", "whyformer", "explain", str(scene), "--quiet", "--out", str(out))
            )
        explanation = one_explanation(scene)
    ratio = min(whole) / (min(bare) + explanation)
    print(
        f"explain {min(whole):.2f} s, bare imports {min(bare):.2f} s, one explanation "
        f"{explanation:.3f} s: ratio {ratio:.2f}"
    )


if __name__ == "__main__":
    main()
