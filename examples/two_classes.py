"""One image, two classes, three methods: the picture at the head of the README.

    python examples/two_classes.py MODEL UPPER LOWER OUT

MODEL is a Hugging Face image classifier (hub id or directory). The upper and the lower image are
put together into one square and explained for a class each: by default "Egyptian cat" and
"espresso", which suit scikit-image's `chelsea.png` and `coffee.png` (both CC0).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from first_look import coloured
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from transformers import AutoImageProcessor, AutoModelForImageClassification

import whyformer

SIDE, GAP, CAPTION = 224, 8, 34
METHODS = ("transformer_attribution", "rollout", "gradcam")


def stacked(upper: Path, lower: Path) -> Image.Image:
    """Two images one above the other in a square."""
    image = Image.new("RGB", (SIDE, SIDE))
    for place, path in enumerate((upper, lower)):
        half = Image.open(path).convert("RGB").resize((SIDE, SIDE // 2), Image.Resampling.BICUBIC)
        image.paste(half, (0, place * SIDE // 2))
    return image


def overlay(image: Image.Image, heat: Tensor) -> Image.Image:
    """The map over the image; where nothing spoke for the class, the image shines through."""
    heat = heat.clamp(max=heat.quantile(0.98))
    strength = (heat - heat.min()) / (heat.max() - heat.min()).clamp(min=1e-30)
    strength = 0.1 + 0.7 * strength.unsqueeze(-1)
    pixels = torch.from_numpy(np.array(image)) * 0.8
    mixed = pixels * (1 - strength) + coloured(heat) * strength
    return Image.fromarray(mixed.byte().numpy())


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

    model = AutoModelForImageClassification.from_pretrained(options.model).eval()
    processor = AutoImageProcessor.from_pretrained(options.model, backend="pil")
    image = stacked(options.upper, options.lower)
    processed = processor(image, return_tensors="pt", do_resize=False, do_center_crop=False)
    recording = whyformer.Explainer(model).record(processed["pixel_values"])
    shares = recording.logits.softmax(-1)[0]

    width, height = SIDE * 4 + GAP * 5, (SIDE + CAPTION) * 2 + GAP
    sheet = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(15)
    for row, name in enumerate(options.classes):
        top = row * (SIDE + CAPTION) + CAPTION
        explained = recording.explain(target=name)
        share = float(shares[int(explained.target[0])])
        panels = [(f'"{name}", p = {share:.2f}', image)]
        for method in METHODS:
            target = name if whyformer.methods()[method].class_specific else None
            heat = recording.explain(target, method).image_map((SIDE, SIDE))[0]
            panels.append((method, overlay(image, heat)))
        for column, (caption, panel) in enumerate(panels):
            left = GAP + column * (SIDE + GAP)
            sheet.paste(panel, (left, top))
            draw.text((left + 2, top - 24), caption, fill=(30, 30, 30), font=font)
    part = options.out.with_name(f"{options.out.stem}.part{options.out.suffix}")
    sheet.quantize(256).save(part, optimize=True)
    part.replace(options.out)
    print(f"{options.out}: {width} x {height}")


if __name__ == "__main__":
    main()
