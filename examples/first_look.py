"""Explain an image with a small ViT that is made on the spot: what `make demo` runs.

The model's weights are random, from a fixed seed: the maps show how whyformer is used and that
two classes get two maps, not what a trained model has learnt.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor
from transformers import ViTConfig, ViTForImageClassification

import whyformer

SIZE, PATCH = 96, 8
CLASSES = ["circle", "square", "triangle"]
#: from dark to bright, a few stops of a perceptually even scale
STOPS = torch.tensor(
    [[10, 8, 40], [80, 20, 110], [170, 45, 105], [235, 105, 60], [252, 240, 165]]
).float()


def scene() -> Image.Image:
    """A circle and a square on a gradient."""
    image = Image.linear_gradient("L").resize((SIZE, SIZE)).convert("RGB")
    draw = ImageDraw.Draw(image)
    draw.ellipse((10, 12, 42, 44), fill=(235, 120, 60))
    draw.rectangle((54, 50, 86, 82), fill=(60, 130, 220))
    return image


def small_vit() -> ViTForImageClassification:
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=SIZE, patch_size=PATCH, hidden_size=64, num_hidden_layers=4,
        num_attention_heads=4, intermediate_size=128, initializer_range=0.2,
        id2label=dict(enumerate(CLASSES)), label2id={name: i for i, name in enumerate(CLASSES)},
    )  # fmt: skip
    return ViTForImageClassification(config).eval()


def coloured(heat: Tensor) -> Tensor:
    """A map as (height, width, 3) colours, dark where nothing spoke for the class."""
    span = (heat.max() - heat.min()).clamp(min=1e-30)
    scaled = (heat - heat.min()) / span * (len(STOPS) - 1)
    low = scaled.floor().long().clamp(max=len(STOPS) - 2)
    share = (scaled - low).unsqueeze(-1)
    return STOPS[low] * (1 - share) + STOPS[low + 1] * share


def half_blocks(picture: Tensor) -> str:
    """A picture for the terminal: each character shows two pixels, one above the other."""
    lines = []
    for upper, lower in zip(
        picture[::2].long().tolist(), picture[1::2].long().tolist(), strict=True
    ):
        cells = [
            f"\033[38;2;{a[0]};{a[1]};{a[2]}m\033[48;2;{b[0]};{b[1]};{b[2]}m▀"
            for a, b in zip(upper, lower, strict=True)
        ]
        lines.append("".join(cells) + "\033[0m")
    return "\n".join(lines)


def main() -> None:
    model, image = small_vit(), scene()
    pixels = torch.from_numpy(np.array(image))
    inputs = (pixels.permute(2, 0, 1).unsqueeze(0) / 127.5) - 1

    explainer = whyformer.Explainer(model)
    recording = explainer.record(inputs)
    explanation = recording.explain(target=["circle", "square"])
    maps = explanation.image_map()[0]

    panels = [pixels.float(), *(0.35 * pixels + 0.65 * coloured(heat) for heat in maps)]
    sheet = torch.cat(panels, dim=1).byte()
    folder = Path("demo")
    folder.mkdir(exist_ok=True)
    big = Image.fromarray(sheet.numpy()).resize((3 * SIZE * 4, SIZE * 4), Image.Resampling.NEAREST)
    big.save(folder / "first_look.part.png")
    (folder / "first_look.part.png").replace(folder / "first_look.png")

    print("A small ViT with random weights (seed 0): what follows shows the way, not knowledge.\n")
    if shutil.get_terminal_size().columns >= 100:
        small = torch.nn.functional.interpolate(
            sheet.permute(2, 0, 1).unsqueeze(0).float(), size=(32, 96), mode="area"
        )
        print(half_blocks(small[0].permute(1, 2, 0)))
        print(f"{'the image':^32}{'for circle':^32}{'for square':^32}\n")
    for name in whyformer.methods():
        options = {"progress": False} if name == "attention_flow" else {}
        target = 0 if whyformer.methods()[name].class_specific else None
        relevance = recording.explain(target, name, **options).relevance[0, 1:]
        row, column = divmod(int(relevance.argmax()), SIZE // PATCH)
        print(f"  {name:<26} strongest patch: row {row:>2}, column {column:>2}")
    print(f"\nThe picture: {folder / 'first_look.png'}")
    print("Next: whyformer.Explainer(your_model)(your_inputs, target=...), see the README.")


if __name__ == "__main__":
    main()
