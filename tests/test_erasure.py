"""Erasure: comprehensiveness, sufficiency and AOPC, computed again word by word."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whyformer
from ties import slow_order, slow_share
from whyformer.errors import InputError
from whyformer.evaluation import evaluate
from whyformer.evaluation.data.documents import Document
from whyformer.evaluation.data.samples import Samples
from whyformer.evaluation.tasks.erasure import probabilities


@pytest.fixture(scope="module")
def why() -> Any:
    return whyformer.load("demo-text")


class Sentences(Samples[Document]):
    name = "sentences"

    def __init__(self, *texts: str, **fields: Any) -> None:
        self._texts, self._fields = texts, fields
        self.keys = [str(i) for i in range(len(texts))]

    def __getitem__(self, index: int) -> Document:
        tokens = self._texts[index].split()
        return Document(self.keys[index], tokens, 0, frozenset(), **self._fields)


TEXT = "a dull and joyless film that wastes a truly wonderful cast"


@pytest.mark.parametrize("removal", ["mask", "delete"])
def test_against_a_loop_over_words(why: Any, tmp_path: Path, removal: str) -> None:
    evaluate(
        "erasure", why, Sentences(TEXT), methods=["gradcam"], removal=removal, out=tmp_path,
        progress=False,
    )  # fmt: skip
    words = TEXT.split()
    recorded = why.record(TEXT)
    predicted = int(recorded.logits.argmax())
    scores = [score for _, score in recorded.explain(predicted, "gradcam").words()[0]]
    assert len(scores) == len(words)
    orders = [slow_order(scores, True, i) for i in range(3)]

    def chance(gone: list[int]) -> float:
        left = [
            why.tokenizer.mask_token if i in gone else word
            for i, word in enumerate(words)
            if removal == "mask" or i not in gone
        ]
        encoded = why.tokenizer(" ".join(left), return_tensors="pt")
        return why.model(**encoded).logits.softmax(-1)[0, predicted].item()

    whole = chance([])
    counts = [ceil(share * len(words)) for share in (0.01, 0.05, 0.1, 0.2, 0.5)]
    tree = json.loads((tmp_path / "results.json").read_text())
    found, tied = tree["erasure"]["gradcam"], tree["counts"]["tied_percent"]["gradcam"]
    assert tied == pytest.approx(100 * slow_share(scores, [*counts, *range(1, 11)]), abs=1e-3)
    assert tied > 1
    removed = np.mean([whole - chance(order[:count]) for order in orders for count in counts])
    kept = np.mean([whole - chance(order[count:]) for order in orders for count in counts])
    firsts = [order[:count] for order in orders for count in range(1, 11)]
    steps = sum(whole - chance(first) for first in firsts) / 3 / 11
    assert found["comprehensiveness"] == pytest.approx(100 * removed, abs=0.01)
    assert found["sufficiency"] == pytest.approx(100 * kept, abs=0.01)
    assert found["aopc"] == pytest.approx(100 * steps, abs=0.01)


def test_a_single_word_can_go(why: Any, tmp_path: Path) -> None:
    for removal in ("mask", "delete"):
        found = evaluate(
            "erasure", why, Sentences("dreadful"), methods=["rollout"], removal=removal,
            out=tmp_path / removal, progress=False,
        )  # fmt: skip
        assert found is not None
        assert found.samples == 1


def test_texts_of_any_length_go_together(why: Any) -> None:
    alone = probabilities(why, ["good"])
    padded = probabilities(why, ["good", TEXT])
    np.testing.assert_allclose(alone[0], padded[0], atol=1e-5)


def test_what_cannot_be_erased_is_named(why: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not windows"):
        evaluate("erasure", why, cut="windows", out=tmp_path / "a", progress=False)
    with pytest.raises(InputError, match="asks a query"):
        evaluate(
            "erasure", why, Sentences(TEXT, query="is it good ?"), out=tmp_path / "b",
            progress=False,
        )  # fmt: skip
    with pytest.raises(InputError, match="no evidence"):
        evaluate("rationales", why, Sentences(TEXT), out=tmp_path / "c", progress=False)
    with pytest.raises(ValueError, match="unknown removal 'cut'"):
        evaluate("erasure", why, removal="cut", out=tmp_path / "d", progress=False)
    with pytest.raises(InputError, match="longest is 1; expected 3 to"):
        evaluate("erasure", why, longest=1, out=tmp_path / "e", progress=False)


def test_a_tokenizer_without_a_mask(tmp_path: Path) -> None:
    why = whyformer.load("demo-text")
    why.tokenizer.mask_token = None
    with pytest.raises(InputError, match="has no mask; delete words instead"):
        evaluate("erasure", why, Sentences(TEXT), out=tmp_path, progress=False)
