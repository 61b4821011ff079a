"""Words that the tokenizer does not know are named, and marked wherever they are shown."""

from __future__ import annotations

from pathlib import Path

import whyformer
from small_texts import words
from whyformer import Pipeline


def test_words_that_the_tokenizer_does_not_know_are_named(small_bert: Pipeline) -> None:
    """Two emoji are one token to the model: nothing may look as if it had told them apart."""
    one, other = small_bert("a 😍 film"), small_bert("a 🤮 film")
    assert one.relevance.equal(other.relevance)
    assert one.notes == (
        "1 of 3 words is unknown to the tokenizer: 😍; the model read [UNK] there, whatever "
        "stands in the text",
    )
    assert "🤮" in other.notes[0]
    assert [piece.unknown for piece in one.pieces[0]] == ["", "", "[UNK]", "", ""]
    assert [word for word, _ in one.words()[0]] == ["a", "😍", "film"]
    assert small_bert("a warm film").notes == ()


def test_unknown_words_of_a_batch_and_of_windows(small_bert: Pipeline) -> None:
    assert small_bert(["a 😍 film", "warm 映 画"]).notes[0].startswith("3 of 6 words are unknown")
    (_, note) = small_bert(words(60) + " 😍 ").notes
    assert note.startswith("1 of 61 words is unknown to the tokenizer: 😍")


def test_unknown_words_without_the_text(small_bert: Pipeline) -> None:
    """Of an encoding alone the pieces are as the vocabulary has them."""
    encoding = small_bert.tokenizer(["a 😍 film"], return_tensors="pt")
    explanation = whyformer.Explainer(small_bert.model)(encoding)
    assert "1 of 3 words is unknown to the tokenizer: [UNK]" in explanation.notes[0]


def test_a_byte_level_tokenizer_knows_everything(small_roberta: Pipeline) -> None:
    assert small_roberta("a 😍 film").notes == ()


def test_unknown_words_carry_a_mark_wherever_they_are_shown(
    small_bert: Pipeline, tmp_path: Path
) -> None:
    from whyformer.render import html_fragment, make_sheet, to_terminal
    from whyformer.render.document import document

    sheet = make_sheet(small_bert("a 😍 film"))
    shown = to_terminal(sheet, colour=False)
    assert "😍[UNK]" in shown
    assert "[UNK]" in to_terminal(sheet, colour=False, pieces=True).split("note:")[0]
    assert "😍" not in to_terminal(sheet, colour=False, pieces=True).split("note:")[0]
    assert "😍[UNK]" in html_fragment(sheet)
    pieces = document(sheet)["pieces"]
    assert [piece.get("unknown") for piece in pieces] == [None, None, "[UNK]", None, None]
