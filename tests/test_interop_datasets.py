"""Answers as columns of a Hugging Face data set."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import whyformer
from small_texts import SENTENCES, save_bert
from test_load import IMAGE, save_vit
from whyformer.interop.datasets import Explained

LONG = " ".join(SENTENCES * 2)


@pytest.fixture
def texts(tmp_path: Path) -> Any:
    """Rows that live in a file, as only those of files are cached."""
    datasets = pytest.importorskip("datasets")
    rows = {"text": [SENTENCES[1], "a warm film", LONG], "label": [1, 0, None]}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "rows")
    return datasets.load_from_disk(str(tmp_path / "rows"))


@pytest.fixture
def images(tmp_path: Path) -> Any:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image(), "wanted": datasets.Value("string")})
    pictures = [Image.fromarray(IMAGE), Image.fromarray(IMAGE[:, ::-1])] * 5
    rows = {"image": pictures, "wanted": ["LABEL_2", None] * 5}
    datasets.Dataset.from_dict(rows, features).save_to_disk(tmp_path / "pictures")
    return datasets.load_from_disk(str(tmp_path / "pictures"))


@pytest.fixture
def bert(tmp_path: Path) -> Any:
    return whyformer.load(save_bert(tmp_path / "bert"))


def test_texts_get_words_with_their_relevance(texts: Any, bert: Any) -> None:
    found = texts.map(Explained(bert, "text", targets="label"), batched=True)
    assert found.column_names == ["text", "label", "prediction", "target", "words", "relevance"]
    for row in found:
        alone = bert(row["text"], target=row["label"])
        assert row["target"] == bert.labels[int(alone.target)]
        assert row["prediction"] == bert.labels[int(alone.logits.argmax())]
        words = alone.words()[0]
        assert row["words"] == [word for word, _ in words]
        assert row["relevance"] == pytest.approx([score for _, score in words], rel=1e-5)


def test_images_get_their_patches(images: Any, tmp_path: Path) -> None:
    why = whyformer.load(save_vit(tmp_path / "vit"))
    asks = Explained(why, "image", targets="wanted", method="generic_attention", prefix="why_")
    found = images.map(asks, batched=True, batch_size=7)
    assert len(found) == 10
    for i in (0, 1, 9):
        row = found[i]
        alone = why(images[i]["image"], row["wanted"], "generic_attention")
        expected = alone.tokens.to_map(alone.relevance)[0]
        assert torch.allclose(torch.tensor(row["why_relevance"]), expected, atol=1e-6)
        assert row["why_target"] == (row["wanted"] or row["why_prediction"])


def test_a_class_agnostic_method_has_no_target(texts: Any, bert: Any) -> None:
    found = texts.map(Explained(bert, "text", targets="label", method="rollout"), batched=True)
    assert found["target"][:] == [None] * 3


def test_answers_are_found_again(
    texts: Any, bert: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The same question is not asked twice; another method, model or setting is another one."""
    read = []
    original = type(bert).record

    def counted(self: Any, inputs: Any, **options: Any) -> Any:
        read.extend(inputs)
        return original(self, inputs, **options)

    monkeypatch.setattr(type(bert), "record", counted)
    with caplog.at_level(logging.WARNING, "datasets"):
        first = texts.map(Explained(bert, "text"), batched=True)
        assert len(read) == 3
        again = texts.map(Explained(bert, "text"), batched=True)
        assert len(read) == 3
        assert again["relevance"][:] == first["relevance"][:]
        texts.map(Explained(whyformer.load(bert.source), "text"), batched=True)
        assert len(read) == 3
        for changed in ({"method": "rollout"}, {"preset": "paper"}, {"targets": "label"}):
            texts.map(Explained(bert, "text", **changed), batched=True)
        assert len(read) == 12
        with torch.no_grad():
            next(bert.model.parameters()).add_(0.1)
        texts.map(Explained(bert, "text"), batched=True)
        assert len(read) == 15
    assert not [record for record in caplog.records if "hash" in record.getMessage()]


def test_in_other_processes(texts: Any, bert: Any) -> None:
    alone = texts.map(Explained(bert, "text"), batched=True)
    two = texts.map(Explained(bert, "text", prefix="x_"), batched=True, num_proc=2)
    assert two["x_words"][:] == alone["words"][:]
    with torch.no_grad():
        next(bert.model.parameters()).add_(0.1)
    with pytest.raises(Exception, match="num_proc=None"):
        texts.map(Explained(bert, "text"), batched=True, num_proc=2)


def test_a_missing_column_is_named(texts: Any, bert: Any) -> None:
    with pytest.raises(whyformer.InputError, match=r"no column 'review'; it has \['label', 'text"):
        texts.map(Explained(bert, "review"), batched=True)
