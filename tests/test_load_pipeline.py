"""A transformers pipeline that is in use already can be asked why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import whyformer
from small_texts import SENTENCES, save_bert
from test_load import IMAGE, save_vit
from test_sacred import same, state
from whyformer import ModelError


def classifier(task: str, folder: Path, **options: Any) -> Any:
    from transformers import pipeline

    return pipeline(task, model=str(folder), device="cpu", **options)


def scores(pipe: Any, given: Any) -> dict[str, float]:
    return {entry["label"]: entry["score"] for entry in pipe(given, top_k=99)}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        "image": save_vit(tmp_path_factory.mktemp("vit")),
        "text": save_bert(tmp_path_factory.mktemp("bert"), positions=80),
    }


def test_images_are_read_as_the_pipeline_reads_them(folders: dict[str, Path]) -> None:
    pipe = classifier("image-classification", folders["image"])
    before = state(pipe.model)
    why = whyformer.load(pipe)
    picture = Image.fromarray(IMAGE)
    explanation = why(picture, target="LABEL_2")
    found = dict(zip(why.labels, explanation.probabilities[0].tolist(), strict=True))
    assert found == pytest.approx(scores(pipe, picture), abs=1e-6)
    by_name = whyformer.load(folders["image"])(picture, target="LABEL_2")
    assert torch.allclose(explanation.relevance, by_name.relevance, atol=1e-6)
    assert why.model is pipe.model
    assert same(state(pipe.model), before)


@pytest.mark.parametrize("text", SENTENCES)
def test_texts_are_read_as_the_pipeline_reads_them(folders: dict[str, Path], text: str) -> None:
    pipe = classifier("text-classification", folders["text"])
    why = whyformer.load(pipe)
    explanation = why(text)
    found = dict(zip(why.labels, explanation.probabilities[0].tolist(), strict=True))
    assert found == pytest.approx(scores(pipe, text), abs=1e-6)
    assert explanation.words() == whyformer.load(folders["text"])(text).words()
    pair = {"text": SENTENCES[1], "text_pair": "a warm film"}
    asked = why((pair["text"], pair["text_pair"])).probabilities[0].tolist()
    assert dict(zip(why.labels, asked, strict=True)) == pytest.approx(scores(pipe, pair), abs=1e-6)


def test_half_precision_and_an_explainers_options(folders: dict[str, Path]) -> None:
    pipe = classifier("image-classification", folders["image"], dtype=torch.bfloat16)
    why = whyformer.load(pipe, labels=["a", "b", "c", "d", "e"])
    assert why.labels == ["a", "b", "c", "d", "e"]
    found = why(IMAGE).probabilities[0].tolist()
    given = scores(pipe, Image.fromarray(IMAGE))
    assert sorted(found) == pytest.approx(sorted(given.values()), abs=0.01)


def test_the_pipelines_longest_text_is_kept(folders: dict[str, Path]) -> None:
    limited = {"truncation": True, "max_length": 12}
    pipe = classifier("text-classification", folders["text"], **limited)
    why = whyformer.load(pipe)
    assert why.reads == {"longest": 12}
    assert "windows of up to 10" in why(SENTENCES[0]).notes[0]


def test_other_pipelines_are_refused(folders: dict[str, Path]) -> None:
    from transformers import TextClassificationPipeline

    filling = classifier("feature-extraction", folders["text"])
    with pytest.raises(ModelError, match="for 'feature-extraction'; give one for"):
        whyformer.load(filling)
    pipe = classifier("text-classification", folders["text"], add_special_tokens=False)
    with pytest.raises(ModelError, match="add_special_tokens=False, which whyformer does not"):
        whyformer.load(pipe)
    pipe = classifier("text-classification", folders["text"])
    with pytest.raises(ModelError, match="device= was given with a pipeline"):
        whyformer.load(pipe, device="cpu")

    class Shouting(TextClassificationPipeline):
        def preprocess(self, inputs: str, **options: Any) -> Any:
            return super().preprocess(inputs.upper(), **options)

    with pytest.raises(ModelError, match="Shouting prepares its inputs with code of its own"):
        whyformer.load(Shouting(model=pipe.model, tokenizer=pipe.tokenizer))
    with pytest.raises(ModelError, match=r"not BertFor.*whyformer\.Explainer\(model\)"):
        whyformer.load(pipe.model)


def test_a_slow_tokenizer_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    from transformers import CanineTokenizer

    pipe = classifier("text-classification", folders["text"])
    pipe.tokenizer = CanineTokenizer()
    with pytest.raises(ModelError, match="has no fast tokenizer"):
        whyformer.load(pipe)
