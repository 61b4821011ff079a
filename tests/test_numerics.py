"""Numerical honesty: the same map whatever the precision."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor, nn

import whyformer
from conftest import shared
from zoo import CASES

CASE = {case.name: case for case in CASES}


def photos(count: int) -> Tensor:
    """Pet photos as DeiT wants them: 224 x 224, ImageNet's mean and deviation."""
    import numpy as np
    from PIL import Image

    folder = shared("data", "pets_segmentation")
    lines = (folder / "index.jsonl").read_text().splitlines()
    chosen = [json.loads(line) for line in lines[:: len(lines) // count][:count]]
    images = [
        Image.open(folder / entry["image"])
        .convert("RGB")
        .resize((224, 224), Image.Resampling.BILINEAR)
        for entry in chosen
    ]
    pixels = torch.from_numpy(np.stack([np.asarray(image) for image in images])) / 255
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return ((pixels - mean) / deviation).permute(0, 3, 1, 2).contiguous()


def deit(dtype: torch.dtype) -> nn.Module:
    from transformers import AutoModelForImageClassification

    folder = shared("data", "deit_tiny_patch16_224_hf")
    return AutoModelForImageClassification.from_pretrained(folder).to(dtype).eval()


def maps(dtype: torch.dtype, images: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor]:
    """Every photo's patches, and the classes explained."""
    explainer = whyformer.Explainer(deit(dtype))
    parts = [
        explainer(images[i : i + 8], None if target is None else target[i : i + 8])
        for i in range(0, len(images), 8)
    ]
    content = torch.cat([part.relevance[:, part.tokens.prefix :] for part in parts]).double()
    return content, torch.cat([part.target for part in parts])


@pytest.mark.slow
def test_float32_and_bfloat16_agree_with_float64_on_photos() -> None:
    images = photos(24)
    exact, target = maps(torch.float64, images, None)
    single, _ = maps(torch.float32, images, target)
    off = (single - exact).abs().amax(1) / exact.amax(1)
    assert off.max() < 1e-4
    half, _ = maps(torch.bfloat16, images, target)
    correlation = torch.tensor(
        [torch.corrcoef(torch.stack(pair))[0, 1] for pair in zip(half, exact, strict=True)]
    )
    assert correlation.median() > 0.99
    assert correlation.min() > 0.95


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["ViT", "BERT", "nn.TransformerEncoder", "by hand, mean-pooled"])
def test_every_method_in_every_precision(name: str, dtype: torch.dtype) -> None:
    model, inputs = CASE[name].make()
    recording = whyformer.Explainer(model.to(dtype)).record(inputs)
    for method in whyformer.methods():
        options = {"progress": False} if "progress" in whyformer.methods()[method].options else {}
        explanation = recording.explain(method=method, **options)
        assert explanation.relevance.dtype is (torch.float32 if dtype is torch.bfloat16 else dtype)
        assert explanation.relevance.isfinite().all()


def test_the_plain_division_is_the_one_that_is_unstable() -> None:
    """Why ``stable`` is the default: near-zero sums blow rounding errors up."""
    model, inputs = CASE["ViT"].make()

    def off(preset: str) -> float:
        found = whyformer.Explainer(model.float())(inputs, 1, preset=preset).relevance.double()
        exact = whyformer.Explainer(model.double())(inputs, 1, preset=preset).relevance
        content = slice(1, None)
        return float((found - exact)[:, content].abs().max() / exact[:, content].max())

    stable, paper = off("stable"), off("paper")
    assert stable < 1e-4
    assert stable < paper


def test_explanations_follow_the_models_device() -> None:
    """Inputs on the CPU are moved to where the model is; results stay there."""
    model, inputs = CASE["ViT"].make()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    explanation = whyformer.Explainer(model.to(device))(inputs)
    assert explanation.relevance.device.type == device
    assert explanation.content.device.type == device
