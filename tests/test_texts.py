"""Texts come back as they were written: words, pairs, and long texts read in windows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

import whyformer
from small_texts import LONGEST, WORDS, save_bert, save_roberta
from whyformer import InputError, Pipeline
from whyformer.words import pieces_of, words_of


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def why(folder: Path) -> Pipeline:
    return whyformer.load(folder)


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return whyformer.load(save_roberta(tmp_path_factory.mktemp("roberta")))


def words(count: int, shift: int = 0) -> str:
    """A text with exactly that many pieces: every word is one."""
    return " ".join(WORDS[(i * i + shift) % len(WORDS)] for i in range(count))


def refused(why: Pipeline, text: Any, **how: Any) -> str:
    with pytest.raises(InputError) as caught:
        why(text, **how)
    message = str(caught.value)
    assert "\n" not in message
    return message


def joined(explanation: Any, sample: int = 0) -> str:
    return "".join(p.gap + p.text for p in explanation.pieces[sample] if p.word is not None)


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
def test_words_as_they_were_written(why: Pipeline, roberta: Pipeline, text: str) -> None:
    for model in (why, roberta):
        assert joined(model(text)) == text


def test_case_and_punctuation_of_words(why: Pipeline) -> None:
    explanation = why("A WARM, Witty Film!")
    assert [word for word, _ in explanation.words()[0]] == ["A", "WARM", ",", "Witty", "Film", "!"]
    scores = explanation.relevance[0].tolist()
    for (_, score), word in zip(
        explanation.words()[0], words_of(explanation.pieces[0]), strict=True
    ):
        assert score == max(scores[i] for i in word.pieces)


def test_pieces_are_in_step_with_the_scores(why: Pipeline) -> None:
    explanation = why("A witty film")
    assert len(explanation.pieces[0]) == explanation.relevance.shape[1]
    assert [piece.word for piece in explanation.pieces[0]] == [None, 0, 1, 2, None]
    assert explanation.content[0].tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("kind", ["why", "roberta", "demo-text"])
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
def test_special_tokens_written_in_the_text(why: Pipeline, text: str) -> None:
    explanation = why(text)
    assert joined(explanation) == text
    assert explanation.relevance.isfinite().all()


def test_accents_that_the_tokenizer_drops_stay_with_their_letters(
    why: Pipeline, roberta: Pipeline
) -> None:
    text = "cafe\u0301 film \u0939\u0948"  # an e and its accent, a consonant and its vowel
    assert [word for word, _ in why(text).words()[0]] == text.split()
    split = [word for word, _ in roberta(text).words()[0]]  # it reads each mark as a word
    assert "".join(split) == text.replace(" ", "")
    pair = why(("cafe\u0301", "\u0301cafe film e\u0301"))
    assert [word for word, _ in pair.words()[0]] == ["cafe\u0301", "cafe", "film", "e\u0301"]


@pytest.mark.parametrize("kind", ["why", "roberta"])
def test_a_pair_has_the_words_of_both(request: pytest.FixtureRequest, kind: str) -> None:
    model: Pipeline = request.getfixturevalue(kind)
    explanation = model(("A warm film", "Witty, too"))
    found = [word for word, _ in explanation.words()[0]]
    assert [word.strip() for word in found] == ["A", "warm", "film", "Witty", ",", "too"]
    assert joined(explanation) == "A warm film\n\nWitty, too"


def test_a_pair_is_what_the_model_reads(why: Pipeline) -> None:
    encoding = why.tokenizer("A warm film", "Witty", return_tensors="pt")
    with torch.no_grad():
        own = why.model(**encoding).logits
    assert encoding["token_type_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1]]
    assert torch.allclose(why(("A warm film", "Witty")).logits, own, atol=1e-5)
    assert not torch.allclose(why("A warm film Witty").logits, own, atol=1e-3)


def test_texts_in_a_batch_are_as_alone(why: Pipeline) -> None:
    texts = ["A witty film", "superb", "without plot, but the acting is superb"]
    explanation = why(texts, target=[0, 1, 2])
    for i, text in enumerate(texts):
        alone = why(text, target=i)
        length = alone.relevance.shape[1]
        assert torch.allclose(explanation.relevance[i, :length], alone.relevance[0], atol=1e-4)
        assert torch.allclose(explanation.logits[i], alone.logits[0], atol=1e-4)
        written = [word for word, _ in explanation.words()[i]]
        assert written == [word for word, _ in alone.words()[0]]
        assert not explanation.content[i, length:].any()


def test_pairs_in_a_batch(why: Pipeline) -> None:
    explanation = why([("a film", "witty"), ("superb acting", "a plot")])
    assert joined(explanation, 0) == "a film\n\nwitty"
    assert joined(explanation, 1) == "superb acting\n\na plot"


@pytest.mark.parametrize("count", [LONGEST - 3, LONGEST - 2])
def test_a_text_just_within_the_limit_is_read_at_once(why: Pipeline, count: int) -> None:
    explanation = why(words(count))
    assert explanation.notes == ()
    assert explanation.relevance.shape == (1, count + 2)


def test_one_piece_beyond_the_limit_takes_two_windows(why: Pipeline) -> None:
    count = LONGEST - 1
    explanation = why(words(count))
    assert explanation.relevance.shape == (1, count)
    (note,) = explanation.notes
    assert f"has {count} pieces" in note
    assert "2 windows" in note
    assert [word for word, _ in explanation.words()[0]] == words(count).split()


def cut_up(ids: list[int], room: int, overlap: int) -> list[tuple[int, list[int]]]:
    """Windows with where they start, until the end is covered."""
    windows = []
    for start in range(0, len(ids), room - overlap):
        windows.append((start, ids[start : start + room]))
        if start + room >= len(ids):
            break
    return windows


def slow_merge(
    why: Pipeline, text: str, target: Any, method: str, before: str = "", after: str = ""
) -> tuple[Tensor, Tensor]:
    """Relevance of the long part and mean logits: window by window, without any padding."""

    def ids(part: str) -> list[int]:
        return why.tokenizer(part, add_special_tokens=False)["input_ids"]

    cls, sep = why.tokenizer.cls_token_id, why.tokenizer.sep_token_id
    other = ids(before or after)
    room = LONGEST - (3 + len(other) if other else 2)
    overlap = int(room * 0.25)
    long = ids(text)
    total, seen, logits = [0.0] * len(long), [0] * len(long), []
    for start, window in cut_up(long, room, overlap):
        first, second = (other, window) if before else (window, other)
        row = [cls, *first, sep, *([*second, sep] if other else [])]
        kinds = [0] * (len(first) + 2) + [1] * (len(row) - len(first) - 2)
        inputs = {"input_ids": torch.tensor([row]), "token_type_ids": torch.tensor([kinds])}
        answer = whyformer.Explainer(why.model, output="logits")(inputs, target, method)
        logits.append(answer.logits[0])
        offset = 1 + (len(other) + 1 if before else 0)
        for i in range(len(window)):
            total[start + i] += float(answer.relevance[0, offset + i])
            seen[start + i] += 1
    assert all(seen)
    merged = [value / count for value, count in zip(total, seen, strict=True)]
    return torch.tensor(merged), torch.stack(logits).mean(0)


def close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))


@pytest.mark.parametrize("count", [LONGEST - 1, 67, 68, 95, 400])
@pytest.mark.parametrize("method", ["transformer_attribution", "rollout", "lrp"])
def test_windows_are_merged_as_by_hand(why: Pipeline, count: int, method: str) -> None:
    target = None if method == "rollout" else 1
    merged, logits = slow_merge(why, words(count), target, method)
    explanation = why(words(count), target, method)
    assert torch.allclose(explanation.logits[0], logits, atol=1e-4)
    assert explanation.relevance.shape == (1, count)
    assert close(explanation.relevance[0], merged)
    assert explanation.content.all()


@pytest.mark.parametrize("first", [True, False])
def test_a_long_part_of_a_pair_is_read_beside_the_whole_short_one(
    why: Pipeline, first: bool
) -> None:
    long, short = words(90), "but the film is superb"
    where = {"after": short} if first else {"before": short}
    merged, logits = slow_merge(why, long, 2, "transformer_attribution", **where)
    explanation = why((long, short) if first else (short, long), 2)
    assert torch.allclose(explanation.logits[0], logits, atol=1e-4)
    part = slice(0, 90) if first else slice(5, 95)
    assert explanation.relevance.shape == (1, 95)
    assert close(explanation.relevance[0, part], merged)
    assert joined(explanation) == (f"{long}\n\n{short}" if first else f"{short}\n\n{long}")


def test_two_long_texts_are_refused(why: Pipeline) -> None:
    message = refused(why, (words(30), words(60)))
    assert "30 and 60 pieces, too many" in message
    assert str(LONGEST) in message


def test_a_short_limit_is_not_taken_for_a_pair(tmp_path: Path) -> None:
    small = whyformer.load(save_bert(tmp_path / "small", positions=12))
    said = ""
    try:
        small(words(40))
    except InputError as error:
        said = str(error)
    assert "both" not in said


def test_a_tokenizer_that_cuts_on_the_left(folder: Path) -> None:
    """Windows run from the start to the end all the same."""
    model = whyformer.load(folder)
    model.tokenizer.truncation_side = "left"
    expected = whyformer.load(folder)(words(90), 1)
    explanation = model(words(90), 1)
    assert explanation.relevance.shape == (1, 90)
    assert close(explanation.relevance, expected.relevance)
    assert [word for word, _ in explanation.words()[0]] == words(90).split()


def test_several_targets_with_windows(why: Pipeline) -> None:
    both = why(words(90), [[0, 2]])
    assert both.relevance.shape == (1, 2, 90)
    assert both.target.tolist() == [[0, 2]]
    for i, target in enumerate((0, 2)):
        assert close(both.relevance[0, i], why(words(90), target).relevance[0])


def test_a_function_as_target_with_windows(why: Pipeline) -> None:
    def ask(logits: Tensor) -> Tensor:
        return logits[:, 0] - logits[:, 1]

    explanation = why(words(90), ask)
    assert explanation.target is None
    merged, _ = slow_merge(why, words(90), ask, "transformer_attribution")
    assert close(explanation.relevance[0], merged)


def test_the_predicted_class_is_that_of_the_mean_logits(why: Pipeline) -> None:
    explanation = why(words(90))
    assert explanation.target.tolist() == explanation.logits.argmax(-1).tolist()
    assert close(explanation.relevance, why(words(90), int(explanation.target)).relevance)


def test_one_recording_of_windows_answers_everything(why: Pipeline) -> None:
    recorded = why.record(words(500))  # more windows than are kept
    one, other = recorded.explain(0), recorded.explain(1)
    assert torch.equal(one.logits, other.logits)
    assert not close(one.relevance, other.relevance)
    assert {answer.method for answer in recorded.compare(0, ["rollout", "gradcam"])} == {
        "rollout",
        "gradcam",
    }


def test_long_texts_of_a_batch_are_refused(why: Pipeline) -> None:
    message = refused(why, ["superb", words(90)])
    assert "text 1 has 92 pieces" in message
    assert "one at a time" in message


def test_blocks_of_windows_cannot_be_kept(why: Pipeline) -> None:
    assert "windows" in refused(why, words(90), keep_blocks=True)


def test_a_long_text_is_saved_in_every_form(why: Pipeline, tmp_path: Path) -> None:
    explanation = why(words(90), [[0, 1]])
    for ending in ("png", "html", "json", "npz", "tex", "svg"):
        assert explanation.save(tmp_path / f"why.{ending}").stat().st_size > 0


def test_robertas_positions_start_behind_the_padding(roberta: Pipeline) -> None:
    assert roberta.model.config.max_position_embeddings == LONGEST + 2
    assert roberta.longest == LONGEST
    text = "film"
    while len(roberta.tokenizer(f"{text} film")["input_ids"]) <= LONGEST:
        text += " film"
    pieces = len(roberta.tokenizer(text)["input_ids"])
    explanation = roberta(text)
    assert pieces == LONGEST
    assert explanation.notes == ()
    assert explanation.relevance.shape == (1, LONGEST)
    beyond = roberta(f"{text} film")
    assert "2 windows" in beyond.notes[0]
    assert joined(beyond) == f"{text} film"


def test_the_limit_is_the_smaller_of_tokenizer_and_model(folder: Path) -> None:
    from whyformer.models.hugging_face import longest_text

    model = whyformer.load(folder)
    assert model.longest == LONGEST
    model.tokenizer.model_max_length = 20
    assert longest_text(model.model, model.tokenizer) == 20


@pytest.mark.parametrize("text", ["", " ", "\n\t ", ("", "film"), ("film", " "), ["film", ""]])
def test_an_empty_text(why: Pipeline, text: Any) -> None:
    assert "empty" in refused(why, text)


@pytest.mark.parametrize("text", ["\u200b", "\u0000", "\ufeff\u200d"])
def test_a_text_that_the_tokenizer_does_not_see(why: Pipeline, text: str) -> None:
    assert "content" in refused(why, text) or "empty" in refused(why, text)


@pytest.mark.parametrize("text", ["film \ud800", "\udcff", ("film", "\udc80 plot")])
def test_half_a_character(why: Pipeline, text: Any) -> None:
    """What a shell passes on of bytes that are no UTF-8."""
    refused(why, text)


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
def test_what_cannot_be_read_as_text(why: Pipeline, text: Any, said: str) -> None:
    assert said in refused(why, text)


def test_the_name_of_a_picture_is_no_text(why: Pipeline, tmp_path: Path) -> None:
    picture = tmp_path / "film.png"
    assert bool(why(str(picture)).relevance.any())
    picture.write_bytes(b"x")
    assert "is the name of a file here; a text was expected" in refused(why, str(picture))


@pytest.mark.slow
@pytest.mark.parametrize("form", [str, lambda text: (text, "a superb film")])
def test_a_hundred_thousand_words(
    tmp_path: Path, form: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = whyformer.load(
        save_bert(tmp_path / "small", positions=128, intermediate_size=16, **small)
    )
    capsys.readouterr()
    explanation = model(form(words(100_000)), 1)
    more = 0 if form is str else 3
    assert explanation.relevance.shape == (1, 100_000 + more)
    assert explanation.relevance.isfinite().all()
    assert (explanation.relevance != 0).double().mean() > 0.5
    assert len(explanation.words()[0]) == 100_000 + more
    assert capsys.readouterr().err == ""


def test_words_that_the_tokenizer_does_not_know_are_named(why: Pipeline) -> None:
    """Two emoji are one token to the model: nothing may look as if it had told them apart."""
    one, other = why("a 😍 film"), why("a 🤮 film")
    assert one.relevance.equal(other.relevance)
    assert one.notes == (
        "1 of 3 words is unknown to the tokenizer: 😍; the model read [UNK] there, whatever "
        "stands in the text",
    )
    assert "🤮" in other.notes[0]
    assert [piece.unknown for piece in one.pieces[0]] == ["", "", "[UNK]", "", ""]
    assert [word for word, _ in one.words()[0]] == ["a", "😍", "film"]
    assert why("a warm film").notes == ()


def test_unknown_words_of_a_batch_and_of_windows(why: Pipeline) -> None:
    assert why(["a 😍 film", "warm 映 画"]).notes[0].startswith("3 of 6 words are unknown")
    (_, note) = why(words(60) + " 😍 ").notes
    assert note.startswith("1 of 61 words is unknown to the tokenizer: 😍")


def test_unknown_words_without_the_text(why: Pipeline) -> None:
    """Of an encoding alone the pieces are as the vocabulary has them."""
    encoding = why.tokenizer(["a 😍 film"], return_tensors="pt")
    explanation = whyformer.Explainer(why.model)(encoding)
    assert "1 of 3 words is unknown to the tokenizer: [UNK]" in explanation.notes[0]


def test_a_byte_level_tokenizer_knows_everything(roberta: Pipeline) -> None:
    assert roberta("a 😍 film").notes == ()


def test_unknown_words_carry_a_mark_wherever_they_are_shown(why: Pipeline, tmp_path: Path) -> None:
    from whyformer.render import html_fragment, make_sheet, to_terminal
    from whyformer.render.document import document

    sheet = make_sheet(why("a 😍 film"))
    shown = to_terminal(sheet, colour=False)
    assert "😍[UNK]" in shown
    assert "[UNK]" in to_terminal(sheet, colour=False, pieces=True).split("note:")[0]
    assert "😍" not in to_terminal(sheet, colour=False, pieces=True).split("note:")[0]
    assert "😍[UNK]" in html_fragment(sheet)
    pieces = document(sheet)["pieces"]
    assert [piece.get("unknown") for piece in pieces] == [None, None, "[UNK]", None, None]


def test_windows_that_take_much_memory_are_not_kept(
    why: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One window at a time gives what all windows at once give."""
    text = words(200)
    kept = why.record(text)
    assert kept.bytes > 0
    one = kept.explain(0)
    assert kept.explain([[0, 1]]).relevance[:, 0].equal(one.relevance)
    monkeypatch.setattr("whyformer.models.windows.MOST_BYTES", 2**10)
    lean = why.record(text)
    assert lean.bytes == 0
    torch.testing.assert_close(lean.explain(0).relevance, one.relevance)
    torch.testing.assert_close(lean.logits, kept.logits)


def test_a_recording_knows_how_much_memory_it_takes(why: Pipeline) -> None:
    """Attention maps alone are so many bytes; a question adds its own."""
    short, long = why.record(words(4)), why.record(words(36))
    maps = sum(a.weights.nbytes for a in long._recording.trace.seen.attention)
    weights = sum(parameter.nbytes for parameter in why.model.parameters())
    assert short.bytes < long.bytes < maps * 20
    assert long.bytes > maps
    assert short.bytes < weights
    before = long.bytes
    long.explain(0)
    assert long.bytes > before
