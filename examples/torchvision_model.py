"""torchvision's ViT-B/16 with its own transforms, by tensors.

    python examples/torchvision_model.py PHOTO OUT [--random]

torchvision downloads the weights; `--random` goes without them, to see that it runs: its map means
nothing. Needs `pip install 'whyformer[vision]'`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from PIL import Image
from torchvision.models import ViT_B_16_Weights, vit_b_16

import whyformer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photo", type=Path)
    parser.add_argument("out", type=Path, help="why.png, why.html, ...")
    parser.add_argument("--random", action="store_true")
    options = parser.parse_args()
    weights = ViT_B_16_Weights.IMAGENET1K_V1
    model = vit_b_16(weights=None if options.random else weights).eval()
    if options.random:  # torchvision starts the head at zero: no class would have a reason
        torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    transform = weights.transforms()
    pixels = transform(Image.open(options.photo).convert("RGB")).unsqueeze(0)

    explainer = whyformer.Explainer(model, labels=weights.meta["categories"])
    explanation = explainer(pixels)
    predicted = int(explanation.target)
    chance = float(explanation.probabilities[0, predicted])
    print(f"{chance:.2f} {explanation.label(predicted)}, patches {explanation.grid}")
    # The explainer saw normalised pixels; undo that, so that the picture has its own colours.
    mean, std = (
        pixels.new_tensor(values).view(3, 1, 1) for values in (transform.mean, transform.std)
    )
    picture = (pixels * std + mean).clamp(0, 1)
    shown = explanation.showing(explanation.parts[0].name, picture=picture)
    print(shown.save(options.out))


if __name__ == "__main__":
    main()
