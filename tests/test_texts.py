"""Texts come back as they were written: words, pieces and pairs; what is no text is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import whyformer
from small_texts import joined, refused
from whyformer import Pipeline
from whyformer.words import pieces_of, words_of

WRITTEN = [
    "A WARM, Witty film!",
    "  two  spaces\tand a tab",
    "naïve café — “quoted” …",
    "I ❤️ it 😀👍🏽 so much",
    "映画はとても良い",
    "don't e-mail me@x.org",
    "x" * 150 + " end",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_words_as_they_were_written(
    small_bert: Pipeline, small_roberta: Pipeline, text: str
) -> None:
    for model in (small_bert, small_roberta):
        assert joined(model(text)) == text


def test_case_and_punctuation_of_words(small_bert: Pipeline) -> None:
    explanation = small_bert("A WARM, Witty Film!")
    assert [word for word, _ in explanation.words()[0]] == ["A", "WARM", ",", "Witty", "Film", "!"]
    scores = explanation.relevance[0].tolist()
    for (_, score), word in zip(
        explanation.words()[0], words_of(explanation.pieces[0]), strict=True
    ):
        assert score == max(scores[i] for i in word.pieces)


def test_pieces_are_in_step_with_the_scores(small_bert: Pipeline) -> None:
    explanation = small_bert("A witty film")
    assert len(explanation.pieces[0]) == explanation.relevance.shape[1]
    assert [piece.word for piece in explanation.pieces[0]] == [None, 0, 1, 2, None]
    assert explanation.content[0].tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("kind", ["small_bert", "small_roberta", "demo-text"])
def test_pieces_put_together_are_the_text(request: pytest.FixtureRequest, kind: str) -> None:
    """All but an end that the tokenizer does not see, such as blanks."""
    model = whyformer.load(kind) if kind == "demo-text" else request.getfixturevalue(kind)
    special = model.tokenizer.all_special_tokens

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.text(min_size=1, max_size=40) | st.text("aé ß\tİﬃ👍🏽\u0301\u200d,.\n中", max_size=20)
    )
    @example("İstanbul ﬃ ǅ \u0130\u0307")
    @example("\u200b a \u0000 b \ufeff")
    @example("e\u0301\u0323 👩‍👩‍👧 \r\n x ")
    def check(text: str) -> None:
        if any(token in text for token in special):
            return
        encoding = model.tokenizer([text])
        (pieces,) = pieces_of(encoding, 1, [text]) or [[]]
        whole = "".join(piece.gap + piece.text for piece in pieces if piece.word is not None)
        rest = text[len(whole) :]
        assert whole + rest == text
        assert not rest.strip() or not model.tokenizer(rest, add_special_tokens=False)["input_ids"]
        numbers = [piece.word for piece in pieces if piece.word is not None]
        assert all(after - before in (0, 1) for before, after in pairwise(numbers))
        assert "".join(word.gap + word.text for word in words_of(pieces)) == whole

    check()


@pytest.mark.parametrize("text", ["a [SEP] film", "[CLS] film", "film [MASK] [PAD] film"])
def test_special_tokens_written_in_the_text(small_bert: Pipeline, text: str) -> None:
    explanation = small_bert(text)
    assert joined(explanation) == text
    assert explanation.relevance.isfinite().all()


def test_accents_that_the_tokenizer_drops_stay_with_their_letters(
    small_bert: Pipeline, small_roberta: Pipeline
) -> None:
    text = "cafe\u0301 film \u0939\u0948"  # an e and its accent, a consonant and its vowel
    assert [word for word, _ in small_bert(text).words()[0]] == text.split()
    split = [word for word, _ in small_roberta(text).words()[0]]  # it reads each mark as a word
    assert "".join(split) == text.replace(" ", "")
    pair = small_bert(("cafe\u0301", "\u0301cafe film e\u0301"))
    assert [word for word, _ in pair.words()[0]] == ["cafe\u0301", "cafe", "film", "e\u0301"]


@pytest.mark.parametrize("kind", ["small_bert", "small_roberta"])
def test_a_pair_has_the_words_of_both(request: pytest.FixtureRequest, kind: str) -> None:
    model: Pipeline = request.getfixturevalue(kind)
    explanation = model(("A warm film", "Witty, too"))
    found = [word for word, _ in explanation.words()[0]]
    assert [word.strip() for word in found] == ["A", "warm", "film", "Witty", ",", "too"]
    assert joined(explanation) == "A warm film\n\nWitty, too"


def test_a_pair_is_what_the_model_reads(small_bert: Pipeline) -> None:
    encoding = small_bert.tokenizer("A warm film", "Witty", return_tensors="pt")
    with torch.no_grad():
        own = small_bert.model(**encoding).logits
    assert encoding["token_type_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1]]
    assert torch.allclose(small_bert(("A warm film", "Witty")).logits, own, atol=1e-5)
    assert not torch.allclose(small_bert("A warm film Witty").logits, own, atol=1e-3)


def test_texts_in_a_batch_are_as_alone(small_bert: Pipeline) -> None:
    texts = ["A witty film", "superb", "without plot, but the acting is superb"]
    explanation = small_bert(texts, target=[0, 1, 2])
    for i, text in enumerate(texts):
        alone = small_bert(text, target=i)
        length = alone.relevance.shape[1]
        assert torch.allclose(explanation.relevance[i, :length], alone.relevance[0], atol=1e-4)
        assert torch.allclose(explanation.logits[i], alone.logits[0], atol=1e-4)
        written = [word for word, _ in explanation.words()[i]]
        assert written == [word for word, _ in alone.words()[0]]
        assert not explanation.content[i, length:].any()


def test_pairs_in_a_batch(small_bert: Pipeline) -> None:
    explanation = small_bert([("a film", "witty"), ("superb acting", "a plot")])
    assert joined(explanation, 0) == "a film\n\nwitty"
    assert joined(explanation, 1) == "superb acting\n\na plot"


@pytest.mark.parametrize("text", ["", " ", "\n\t ", ("", "film"), ("film", " "), ["film", ""]])
def test_an_empty_text(small_bert: Pipeline, text: Any) -> None:
    assert "empty" in refused(small_bert, text)


@pytest.mark.parametrize("text", ["\u200b", "\u0000", "\ufeff\u200d"])
def test_a_text_that_the_tokenizer_does_not_see(small_bert: Pipeline, text: str) -> None:
    assert "content" in refused(small_bert, text) or "empty" in refused(small_bert, text)


@pytest.mark.parametrize("text", ["film \ud800", "\udcff", ("film", "\udc80 plot")])
def test_half_a_character(small_bert: Pipeline, text: Any) -> None:
    """What a shell passes on of bytes that are no UTF-8."""
    refused(small_bert, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (3, "not int"),
        (None, "not NoneType"),
        (b"film", "not bytes"),
        (("a", "b", "c"), "pair of strings"),
        (("film",), "pair of strings"),
        ((), "pair of strings"),
        ([], "empty"),
        (["film", 3], "not int"),
        ([["film", "plot"]], "not list"),
        (["film", ("a", "plot")], "mixed"),
        ({"input_ids": torch.zeros(1, 4)}, "whyformer.Explainer"),
    ],
)
def test_what_cannot_be_read_as_text(small_bert: Pipeline, text: Any, said: str) -> None:
    assert said in refused(small_bert, text)


def test_the_name_of_a_picture_is_no_text(small_bert: Pipeline, tmp_path: Path) -> None:
    picture = tmp_path / "film.png"
    assert bool(small_bert(str(picture)).relevance.any())
    picture.write_bytes(b"x")
    assert "is the name of a file here; a text was expected" in refused(small_bert, str(picture))
