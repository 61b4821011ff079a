"""``whyformer.load`` finds a model by any of its names and reads it as it was saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import whyformer
from conftest import shared
from small_images import save_vit
from small_texts import save_bert
from spoiling import Evil, refused, weights_of
from whyformer import ModelError, TargetError, UnknownNameError, WhyformerError
from whyformer.models.catalogue import EMBEDDED

IMAGE = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)


@pytest.mark.parametrize(("name", "kind"), [("demo-vision", "image"), ("demo-text", "text")])
def test_embedded_models_load_by_name(name: str, kind: str) -> None:
    why = whyformer.load(name)
    assert (why.name, why.kind) == (name, kind)
    assert not why.model.training
    assert {parameter.dtype for parameter in why.model.parameters()} == {torch.float32}
    assert EMBEDDED[name].kind == kind


def test_an_embedded_model_is_explained() -> None:
    text = whyformer.load("demo-text")("A warm and witty film.", target="positive")
    assert text.words()[0][0][0] == "A"
    image = whyformer.load("demo-vision")(IMAGE, target="3")
    assert image.target.tolist() == [3]
    assert image.image_map().shape == (1, 96, 96)


@pytest.mark.parametrize("form", [str, Path, lambda path: f"{path}/"])
def test_a_directory_by_any_spelling(vit_copy: Path, form: Callable[[Path], Any]) -> None:
    why = whyformer.load(form(vit_copy))
    assert why.kind == "image"
    assert why(IMAGE).relevance.shape == (1, 17)


def test_a_directory_relative_to_here_and_to_home(
    vit_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(vit_copy.parent)
    monkeypatch.setenv("HOME", str(vit_copy.parent))
    assert whyformer.load("vit").kind == "image"
    assert whyformer.load("./vit").kind == "image"
    assert whyformer.load("~/vit").kind == "image"


def test_a_directory_with_a_difficult_name(vit_copy: Path) -> None:
    odd = vit_copy.rename(vit_copy.with_name("my model's (né 50%) 猫"))
    assert whyformer.load(odd).kind == "image"


def test_logits_are_the_saved_models_own(vit_copy: Path, bert_copy: Path) -> None:
    from transformers import ViTForImageClassification

    own = ViTForImageClassification.from_pretrained(vit_copy).eval()
    why = whyformer.load(vit_copy)
    for name, value in weights_of(own).items():
        assert torch.equal(weights_of(why.model)[name], value)
    explanation = why(IMAGE)
    pixels = (explanation.picture - 0.5) / 0.5
    assert torch.allclose(explanation.logits, own(pixels).logits, atol=1e-5)


def test_half_precision_weights_are_read_in_float32(vit_copy: Path) -> None:
    from transformers import ViTForImageClassification

    half = ViTForImageClassification.from_pretrained(vit_copy, dtype=torch.float16)
    half.save_pretrained(vit_copy)
    model = whyformer.load(vit_copy).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.classifier.weight, half.classifier.weight.float())


def test_a_head_for_several_labels_has_sigmoid_probabilities(tmp_path: Path) -> None:
    folder = save_bert(tmp_path / "multi", problem_type="multi_label_classification")
    explanation = whyformer.load(folder)("a warm film")
    assert explanation.problem == "multi_label_classification"
    assert torch.equal(explanation.probabilities, explanation.logits.sigmoid())
    assert explanation.target.tolist() == explanation.logits.argmax(-1).tolist()


def test_a_regression_has_no_probability(tmp_path: Path) -> None:
    folder = save_bert(tmp_path / "regression", num_labels=1)
    explanation = whyformer.load(folder)("a warm film")
    assert explanation.problem == "regression"
    assert explanation.probabilities is None
    assert explanation.target.tolist() == [0]
    assert explanation.relevance.abs().sum() > 0
    written = json.loads(explanation.save(tmp_path / "why.json").read_text())
    assert written["classes"][0]["probability"] is None


def test_labels_and_pooling_pass_through(vit_copy: Path) -> None:
    names = ["crane", "cat", "dog", "eel", "fox"]
    why = whyformer.load(vit_copy, labels=names)
    assert why.labels == names
    assert why(IMAGE, target="eel").target.tolist() == [3]
    with pytest.raises(TargetError, match="LABEL_3"):
        why(IMAGE, target="LABEL_3")
    other = whyformer.load(vit_copy, pooling="mean")
    assert other.explainer.pooling == "mean"
    assert not torch.equal(why(IMAGE).relevance, other(IMAGE).relevance)


@pytest.mark.parametrize("labels", [["only one"], [str(i) for i in range(9)]])
def test_labels_of_another_number_are_refused(vit_copy: Path, labels: list[str]) -> None:
    with pytest.raises(WhyformerError, match="label"):
        whyformer.load(vit_copy, labels=labels)(IMAGE).save(vit_copy / "why.json")


def test_weights_go_with_timm_only(vit_copy: Path) -> None:
    for name in ("demo-vision", vit_copy, "google/vit"):
        message = refused(ModelError, name, weights=vit_copy / "model.safetensors")
        assert "weights= goes with timm models" in message


def test_what_is_loaded_says_what_it_is(vit_copy: Path) -> None:
    assert repr(whyformer.load(vit_copy)) == f"ImagePipeline('{vit_copy.name}', 5 classes)"


def test_real_models_beside_the_repository() -> None:
    why = whyformer.load(shared("data", "minilm_sentiment"))
    explanation = why("A joyless film.", target="NEG")
    words = dict(explanation.words()[0])
    assert max(words, key=words.__getitem__) == "joyless"


@pytest.mark.vision
class TestTimm:
    """timm's own names, and the same DeiT-Tiny as Hugging Face's."""

    NAME = "timm/deit_tiny_patch16_224"

    @pytest.fixture
    def weights(self) -> Path:
        return shared("data", "deit_tiny_patch16_224", "deit_tiny_patch16_224.safetensors")

    def test_same_relevance_as_hugging_face(self, weights: Path) -> None:
        photo = min(shared("data", "pets_segmentation", "images").glob("*.jpg"))
        there = whyformer.load(shared("data", "deit_tiny_patch16_224_hf"))
        why = whyformer.load(self.NAME, weights=weights)
        assert not why.model.training
        here = why(photo)
        assert here.target.tolist() == there(photo).target.tolist()
        assert here.label(int(here.target)).split(",")[0] in there(photo).label(int(here.target))
        mean, std = (
            torch.tensor(why.model.default_cfg[key]).view(-1, 1, 1) for key in ("mean", "std")
        )
        same = there.explainer((here.picture - mean) / std)  # the two crop photos differently
        assert torch.allclose(here.logits, same.logits, atol=1e-3)
        assert torch.allclose(here.relevance, same.relevance, atol=1e-3 * here.relevance.max())

    def test_unknown_names_and_no_weights(self) -> None:
        message = refused(UnknownNameError, "timm/deit_tiny_patch16_244")
        assert "did you mean 'deit_tiny_patch16_224'" in message
        assert "give weights=" in refused(ModelError, self.NAME, offline=True)
        assert "no such file" in refused(ModelError, self.NAME, weights="no-such.safetensors")

    def test_weights_that_do_not_fit_or_are_damaged(self, vit_copy: Path) -> None:
        message = refused(ModelError, self.NAME, weights=vit_copy / "model.safetensors")
        assert "does not fit" in message
        assert "cannot be read" in refused(
            ModelError, self.NAME, weights=vit_copy / "config.json", allow_pickle=True
        )

    def test_pickled_weights_are_refused_unless_allowed(
        self, weights: Path, tmp_path: Path
    ) -> None:
        from safetensors.torch import load_file

        path = tmp_path / "weights.pth"
        torch.save({"model": load_file(weights)}, path)
        assert "allow_pickle=True" in refused(ModelError, self.NAME, weights=path)
        why = whyformer.load(self.NAME, weights=path, allow_pickle=True)
        assert torch.equal(why.model.head.bias, load_file(weights)["head.bias"])
        torch.save({"model": Evil(tmp_path / "was-run")}, path)
        refused(ModelError, self.NAME, weights=path, allow_pickle=True)
        assert not (tmp_path / "was-run").exists()


def test_where_a_model_lies_stays_out_of_pages(tmp_path: Path) -> None:
    model = save_vit(tmp_path / "secret" / "my-vit")
    why = whyformer.load(model)
    assert (why.name, why.source) == ("my-vit", str(model))
    path = why(IMAGE).save(tmp_path / "why.html", model=why.name)
    assert "secret" not in path.read_text()
    text = whyformer.load(save_bert(tmp_path / "my-bert"))
    assert text.reading(20).source == text.source
