"""One image, two classes, four methods: the picture at the head of the README.

    python examples/two_classes.py MODEL UPPER LOWER OUT

MODEL is an image classifier (hub id or directory). The upper and the lower image are put together
into one square and explained for a class each: by default "Egyptian cat" and "espresso", which
suit scikit-image's `chelsea.png` and `coffee.png` (both CC0).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

import whyformer
from whyformer.render import save

SIDE, FRAMED = 224, 256
METHODS = ("transformer_attribution", "witness", "rollout", "gradcam")


def stacked(upper: Path, lower: Path) -> Image.Image:
    """Two images one above the other, in a frame that the model's centre crop takes away."""
    framed = Image.new("RGB", (FRAMED, FRAMED))
    corner = (FRAMED - SIDE) // 2
    for place, path in enumerate((upper, lower)):
        half = Image.open(path).convert("RGB").resize((SIDE, SIDE // 2), Image.Resampling.BICUBIC)
        framed.paste(half, (corner, corner + place * SIDE // 2))
    return framed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("upper", type=Path)
    parser.add_argument("lower", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--classes", nargs=2, default=["Egyptian cat", "espresso"])
    options = parser.parse_args()
    why = whyformer.load(options.model)
    image = stacked(options.upper, options.lower)
    print(save(why.compare(image, [options.classes], METHODS), options.out))


if __name__ == "__main__":
    main()
