"""A real model on real photos: it names the breed, and the map lies on the animal."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import whyformer
from conftest import shared


@pytest.mark.slow
def test_deit_names_the_breed_and_the_map_lies_on_the_animal() -> None:
    why = whyformer.load(shared("data", "deit_tiny_patch16_224_hf"))
    pets = shared("data", "pets_segmentation")
    lines = (pets / "index.jsonl").read_text().splitlines()[::20]
    right, inside, area = [], [], []
    for line in lines:
        entry = json.loads(line)
        explanation = why(pets / entry["image"])
        right.append(int(explanation.target[0]) == entry["label"])
        heat = explanation.image_map()[0].numpy()
        mask = Image.open(pets / entry["mask"]).convert("L").resize((256, 256))
        crop = np.asarray(mask)[16:240, 16:240] > 127
        inside.append(heat[crop].sum() / heat.sum())
        area.append(crop.mean())
    assert np.mean(right) >= 0.7
    assert np.mean(inside) > np.mean(area) + 0.2
