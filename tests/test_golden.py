"""The authors' own outputs, tensor by tensor, each in its preset."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import whyformer
from conftest import GOLDEN
from whyformer import Recording

MAPS = {
    # golden name: (preset, method, options, tolerance)
    "transformer_attribution": ("paper", "transformer_attribution", {}, 1e-5),
    "transformer_attribution.start_layer_1": ("reference", "transformer_attribution", {}, 1e-5),
    "transformer_attribution.row_normalised": ("reference", "transformer_attribution", {}, 1e-5),
    "transformer_attribution.last_block": (
        "reference",
        "transformer_attribution",
        {"blocks": -1},
        1e-5,
    ),
    "relevance_rollout": ("paper", "transformer_attribution", {"factor": None}, 1e-5),
    "ablation_no_gradient": ("paper", "transformer_attribution", {"factor": "attention"}, 1e-5),
    "ablation_last_block": ("paper", "transformer_attribution", {"blocks": -1}, 1e-5),
    "ablation_second_block": ("paper", "transformer_attribution", {"blocks": 1}, 1e-5),
    "raw_attention": ("reference", "raw_attention", {}, 1e-5),
    "rollout": ("reference", "rollout", {}, 1e-5),
    "gradcam": ("reference", "gradcam", {}, 1e-5),
    "full_relevance": ("paper", "lrp", {"rules": "attribution"}, 1e-5),
    "lrp_reference": ("reference", "lrp", {}, 1e-3),
    "partial_lrp_reference": ("reference", "partial_lrp", {}, 1e-3),
}


def cases() -> list[Any]:
    found = []
    for folder in sorted(GOLDEN.glob("*/cases.json")):
        for case in json.loads(folder.read_text()):
            found.append(
                pytest.param(folder.parent.name, case, id=f"{folder.parent.name}-{case['key']}")
            )
    assert found, "the golden cases lie beside this file"
    return found


class Golden:
    """A golden folder: its tensors and one recording of all its inputs as a batch."""

    _loaded: ClassVar[dict[str, Golden]] = {}

    def __init__(self, name: str) -> None:
        from safetensors.torch import load_file
        from transformers import (
            AutoConfig,
            AutoModelForImageClassification,
            AutoModelForSequenceClassification,
        )

        folder = GOLDEN / name
        self.tensors = load_file(folder / "golden.safetensors")
        image = "pixel_values" in self.tensors
        loader = AutoModelForImageClassification if image else AutoModelForSequenceClassification
        model = loader.from_pretrained(folder, config=AutoConfig.from_pretrained(folder))
        names = ("pixel_values",) if image else ("input_ids", "attention_mask")
        inputs = {key: self.tensors[key] for key in names}
        self.recording: Recording = whyformer.Explainer(model.double().eval()).record(inputs)

    @classmethod
    def load(cls, name: str) -> Golden:
        if name not in cls._loaded:
            cls._loaded[name] = cls(name)
        return cls._loaded[name]


def off(found: Tensor, expected: Tensor) -> float:
    """The largest difference relative to the expected tensor's maximum."""
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize(("name", "case"), cases())
def test_every_map_of_the_authors(name: str, case: dict[str, Any]) -> None:
    golden = Golden.load(name)
    sample = case.get("image", case.get("text"))
    assert off(golden.recording.logits, golden.tensors["logits"]) < 1e-10
    known = [key for key in golden.tensors if key.startswith(case["key"] + ".")]
    compared = {f"{case['key']}.{kind}" for kind in ("attention", "attention_gradient")}
    compared.add(f"{case['key']}.attention_relevance")
    for short, (preset, method, options, tolerance) in MAPS.items():
        key = f"{case['key']}.{short}"
        if key not in golden.tensors:
            continue
        target = case["target"] if whyformer.methods()[method].class_specific else None
        explanation = golden.recording.explain(target, method, preset, **options)
        found = explanation.input_relevance
        if found is None:
            found = explanation.relevance
            if explanation.grid:
                found = found[:, explanation.tokens.prefix :]
        assert off(found[sample], golden.tensors[key]) < tolerance, key
        compared.add(key)
    assert compared == set(known), "a golden tensor has no comparison"


@pytest.mark.parametrize("preset", ["paper", "reference"])
@pytest.mark.parametrize(("name", "case"), cases())
def test_attention_gradient_and_relevance_of_every_block(
    name: str, case: dict[str, Any], preset: str
) -> None:
    golden = Golden.load(name)
    sample = case.get("image", case.get("text"))
    blocks = golden.recording.explain(case["target"], preset=preset, keep_blocks=True).blocks
    for kind, maps, tolerance in (
        ("attention", blocks.attention, 1e-10),
        ("attention_gradient", blocks.gradient, 1e-10),
        ("attention_relevance", blocks.relevance, 1e-4),
    ):
        found = torch.stack([block[sample] for block in maps])
        assert off(found, golden.tensors[f"{case['key']}.{kind}"]) < tolerance, kind
