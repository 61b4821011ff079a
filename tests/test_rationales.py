"""Rationales: tokens, pieces and evidence meet where they should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whyformer
from conftest import shared
from whyformer.demo.reviews import reviews, unmarked
from whyformer.errors import InputError
from whyformer.evaluation import evaluate
from whyformer.evaluation.data.classes import class_of
from whyformer.evaluation.data.documents import Eraser, Reviews
from whyformer.evaluation.run.runner import read_records
from whyformer.evaluation.tasks.rationales import COUNTS, mean_f1
from whyformer.evaluation.tasks.texts import token_places, word_scores
from whyformer.words import Piece


@pytest.fixture(scope="module")
def why() -> Any:
    return whyformer.load("demo-text")


def write_eraser(folder: Path, **changes: Any) -> Path:
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a.txt").write_text("a dull film .\nbut warm at heart .")
    span = {"docid": "a.txt", "start_token": 5, "end_token": 7, "text": "warm at"}
    entry = {"annotation_id": "a.txt", "classification": "POS", "evidences": [[span]], **changes}
    (folder / "test.jsonl").write_text(json.dumps(entry) + "\n")
    return folder


def test_words_of_equal_scores_are_taken_in_several_orders() -> None:
    """In reading order the evidence at the end would never be found, that at the start always."""
    orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]]
    assert mean_f1(orders, 1, {0}) == pytest.approx((1 + 0 + 0) / 3)
    assert mean_f1(orders, 2, {0}) == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)


def test_marks_become_places() -> None:
    tokens, marked = unmarked("a [[ truly bad ]] film , [[ avoid ]]")
    assert tokens == ["a", "truly", "bad", "film", ",", "avoid"]
    assert marked == {1, 2, 5}


def test_embedded_reviews_are_balanced_and_marked() -> None:
    found = reviews()
    verdicts = [verdict for verdict, _, _ in found]
    assert verdicts.count("negative") == verdicts.count("positive") == len(found) / 2
    assert all(0 < len(marked) < len(tokens) / 2 for _, tokens, marked in found)
    assert not any("[[" in token or "]]" in token for _, tokens, _ in found for token in tokens)


def test_a_token_has_its_highest_piece() -> None:
    """ "un" + "like" + "ly" are one token, "it" and "'s" of one token count together."""
    pieces = [
        Piece("[CLS]", " ", None), Piece("un", "", 0), Piece("like", "", 0), Piece("ly", "", 0),
        Piece("it", " ", 1), Piece("'", "", 2), Piece("s", "", 3), Piece("[SEP]", " ", None),
    ]  # fmt: skip
    places = token_places(["unlikely", "it's", "unread"])
    scores = word_scores(pieces, [9, 0.1, 0.5, 0.2, 0.3, 0.7, 0.0, 9], places)
    assert scores.tolist() == [0.5, 0.7, -np.inf]


def test_eraser_directories(tmp_path: Path) -> None:
    document = Eraser(write_eraser(tmp_path / "good"), "test", ["negative", "positive"])[0]
    assert document.label == 1
    assert [document.tokens[i] for i in sorted(document.evidence)] == ["warm", "at"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"classification": "MIXED"}, "'MIXED' is none of the model's"),
        ({"evidences": [[{"docid": "a.txt", "start_token": 5, "end_token": 99}]]}, "5 to 99"),
        ({"evidences": [[{"docid": "b.txt", "start_token": 0, "end_token": 1}]]}, "no such file"),
        (
            {
                "evidences": [
                    [{"docid": d, "start_token": 0, "end_token": 1} for d in ("a.txt", "b.txt")]
                ]
            },
            "2 documents",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, changes: Any, said: str) -> None:
    samples = Eraser(write_eraser(tmp_path / "bad", **changes), "test", ["negative", "positive"])
    with pytest.raises(InputError, match=said):
        samples[0]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no ERASER directory"):
        Eraser(tmp_path, "test", ["negative", "positive"])


def test_short_names_of_classes() -> None:
    assert class_of("NEG", ["Negative", "Positive"]) == 0
    assert class_of("positive", ["NEG", "POS"]) == 1
    with pytest.raises(InputError, match="several"):
        class_of("p", ["poor", "perfect"])


@pytest.mark.parametrize("end", [False, True])
def test_what_fits_is_what_the_model_reads(why: Any, end: bool) -> None:
    tokens = ("a joyless unbelievably long-winded film , yes " * 80).split()
    kept = why.fitting(tokens, from_end=end)
    assert 0 < kept < len(tokens)
    part, more = (
        (tokens[-kept:], tokens[-kept - 1 :]) if end else (tokens[:kept], tokens[: kept + 1])
    )
    assert len(why.tokenizer(" ".join(part))["input_ids"]) <= why.longest
    assert len(why.tokenizer(" ".join(more))["input_ids"]) > why.longest
    assert why.fitting(tokens[:5]) == 5


@pytest.mark.parametrize("cut", ["head", "tail", "windows"])
def test_a_run_over_embedded_reviews(why: Any, tmp_path: Path, cut: str) -> None:
    result = evaluate(
        "rationales", why, methods=["transformer_attribution", "rollout"], limit=3, cut=cut,
        out=tmp_path, progress=False,
    )  # fmt: skip
    assert result is not None
    found = json.loads((tmp_path / "results.json").read_text())["rationales"]
    assert list(found["rollout"]["token_f1"]) == [str(count) for count in COUNTS]
    for line in (tmp_path / "rationales" / "rollout" / "10.jsonl").read_text().splitlines():
        (rationale,) = json.loads(line)["rationales"]
        spans = rationale["hard_rationale_predictions"]
        assert len(spans) == 10
        assert all(span["end_token"] == span["start_token"] + 1 for span in spans)


def test_the_figure_is_the_mean_of_token_f1(why: Any, tmp_path: Path) -> None:
    """One review, computed again by hand from the words and their scores."""
    document = Reviews(why.labels)[1]
    evaluate("rationales", why, methods=["gradcam"], limit=12, out=tmp_path, progress=False)
    lines = (tmp_path / "records-0.jsonl").read_text().splitlines()
    record = next(r for r in map(json.loads, lines) if r["key"] == document.key)
    explanation = why(" ".join(document.tokens), document.label, "gradcam")
    scores: dict[int, float] = {}
    position = 0
    starts = np.cumsum([0, *(len(token) + 1 for token in document.tokens)])
    for piece, score in zip(explanation.pieces[0], explanation.relevance[0].tolist(), strict=True):
        if piece.word is None:
            continue
        position += len(piece.gap)
        token = int(np.searchsorted(starts, position, side="right")) - 1
        scores[token] = max(scores.get(token, -1.0), score)
        position += len(piece.text)
    best = sorted(scores, key=lambda token: (-scores[token], token))[:10]
    hits = len(set(best) & document.evidence)
    precision, recall = hits / 10, hits / len(document.evidence)
    expected = 2 * precision * recall / (precision + recall) if hits else 0
    assert record["f1"][0] == pytest.approx(expected)
    (line,) = [
        line
        for line in map(json.loads, (tmp_path / "rationales/gradcam/10.jsonl").open())
        if line["annotation_id"] == document.key
    ]
    spans = line["rationales"][0]["hard_rationale_predictions"]
    assert [span["start_token"] for span in spans] == sorted(best)


def test_the_reference_preset_looks_at_the_last_block(why: Any, tmp_path: Path) -> None:
    """As the authors' benchmark does; the other presets roll out all blocks."""
    document = Reviews(why.labels)[0]
    text = " ".join(document.tokens)
    found = {}
    for preset in ("stable", "reference"):
        evaluate(
            "rationales", why, methods=["transformer_attribution"], preset=preset, limit=1,
            out=tmp_path / preset, progress=False,
        )  # fmt: skip
        (record,) = read_records(tmp_path / preset)
        found[preset] = record["best"][0]
    for preset, options in (("stable", {}), ("reference", {"blocks": -1})):
        explanation = why(text, document.label, preset=preset, **options)
        words = explanation.words()[0]
        best = max(range(len(words)), key=lambda i: words[i][1])
        assert words[best][0] in document.tokens[found[preset]]


@pytest.mark.slow
def test_movie_reviews_are_near_the_known_figures(tmp_path: Path) -> None:
    """All 199 reviews gave 7.8 at 10 words and 29.5 at 80 for the method."""
    minilm = whyformer.load(shared("data", "minilm_sentiment"))
    movies = shared("data", "eraser_movies")
    evaluate(
        "rationales", minilm, movies, methods=["transformer_attribution"], limit=50, cut="tail",
        longest=256, out=tmp_path, progress=False,
    )  # fmt: skip
    found = json.loads((tmp_path / "results.json").read_text())["rationales"]
    assert found["transformer_attribution"]["token_f1"]["10"] == pytest.approx(7.8, abs=2)
    assert found["transformer_attribution"]["token_f1"]["80"] == pytest.approx(29.5, abs=4)
