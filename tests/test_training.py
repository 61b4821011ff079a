"""The trainings work, and the shipped models are as good as their cards say."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import torch

from conftest import shared

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "src" / "whyformer" / "demo"
sys.path.insert(0, str(ROOT / "training"))


def card_accuracy(name: str) -> float:
    """The first percentage that a model card gives."""
    found = re.search(r"(\d+\.\d+) %", (DEMO / name / "README.md").read_text())
    assert found is not None
    return float(found[1]) / 100


def falls(losses: list[float], window: int) -> bool:
    return sum(losses[-window:]) < 0.9 * sum(losses[:window])


@pytest.mark.slow
def test_a_tiny_vision_model_learns() -> None:
    import vision

    model = vision.make_model(width=32, depth=5)
    losses = vision.train(model, scenes=800, seed=0, batch=16, rate=2e-3, workers=0)
    assert falls(losses, 10)
    assert 0 <= vision.accuracy(model, 50) <= 1


@pytest.mark.slow
def test_a_tiny_text_model_learns(tmp_path: Path) -> None:
    import text

    good, bad = ("a warm and moving film", 1), ("a dull and joyless film", 0)
    (tmp_path / "docs").mkdir()
    entries = []
    for i in range(6):
        (tmp_path / "docs" / f"{i}.txt").write_text(" ".join([good[0] if i % 2 else bad[0]] * 30))
        evidence = [[{"text": "warm" if i % 2 else "dull"}]]
        side = "POS" if i % 2 else "NEG"
        entry = {"annotation_id": f"{i}.txt", "classification": side, "evidences": evidence}
        entries.append(json.dumps(entry))
    (tmp_path / "train.jsonl").write_text("\n".join(entries))
    reviews, passages = text.read_reviews(tmp_path, "train")
    assert passages[0] == ("dull", 0)
    sentences = [good, bad] * 20
    tokenizer = text.learn_pieces([s for s, _ in sentences + reviews], 200)
    model = text.make_model(tokenizer, width=32, depth=2)
    told = text.train(model, tokenizer, sentences + passages, reviews, 20, 8, 3e-3, 0)
    assert falls(told, 5)
    assert text.accuracy(model, tokenizer, [good, bad]) == 1


@pytest.mark.slow
def test_the_shipped_vision_model_reads_unseen_digits() -> None:

    import vision
    from whyformer.demo.vit import load_vit

    measured = vision.accuracy(load_vit(DEMO / "image"), 600)
    assert measured >= 0.97 - 0.01
    assert abs(measured - card_accuracy("image")) < 0.02


def test_the_shipped_text_model_tells_sentiment() -> None:
    from transformers import AutoTokenizer, BertForSequenceClassification

    import text

    dev = text.read_tsv(shared("data", "sst2", "dev.tsv"))
    model = BertForSequenceClassification.from_pretrained(DEMO / "text", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(DEMO / "text")
    measured = text.accuracy(model.eval(), tokenizer, dev)
    assert measured >= 0.80
    assert abs(measured - card_accuracy("text")) < 0.002


@pytest.mark.parametrize("name", ["image", "text", "writer", "clip", "detector"])
def test_models_are_small_and_safe(name: str) -> None:
    files = list((DEMO / name).iterdir())
    assert sum(file.stat().st_size for file in files) < 5e6
    assert any(file.name == "model.safetensors" for file in files)
    assert not any(file.suffix in {".bin", ".pt", ".pkl", ".py"} for file in files)


def test_weights_of_a_class_token_serve_a_mean() -> None:
    """The patches' streams are the ViT's; the classifier reads the norm of their mean."""
    from transformers import ViTConfig, ViTForImageClassification

    import mean_pooling

    torch.manual_seed(0)
    shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    shape |= {"intermediate_size": 48, "image_size": 32, "patch_size": 8}
    vit = ViTForImageClassification(ViTConfig(**shape)).eval()
    for name, parameter in vit.named_parameters():
        torch.nn.init.normal_(parameter, std=0.3) if "bias" in name else None
    pooled = mean_pooling.mean_pooled(vit, ["a", "b", "c"])
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        patches = vit.vit(pixels, output_hidden_states=True).hidden_states[-1][:, 1:]
        mean = vit.vit.layernorm(patches.mean(1))
        assert torch.allclose(mean_pooling.features(pooled, pixels), mean, atol=1e-5)
