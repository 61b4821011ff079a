"""Texts that are too long are read in windows, and merged as by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import whyformer
from small_texts import LONGEST, joined, refused, save_bert, words
from whyformer import InputError, Pipeline


@pytest.mark.parametrize("count", [LONGEST - 3, LONGEST - 2])
def test_a_text_just_within_the_limit_is_read_at_once(small_bert: Pipeline, count: int) -> None:
    explanation = small_bert(words(count))
    assert explanation.notes == ()
    assert explanation.relevance.shape == (1, count + 2)


def test_one_piece_beyond_the_limit_takes_two_windows(small_bert: Pipeline) -> None:
    count = LONGEST - 1
    explanation = small_bert(words(count))
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
    small_bert: Pipeline, text: str, target: Any, method: str, before: str = "", after: str = ""
) -> tuple[Tensor, Tensor]:
    """Relevance of the long part and mean logits: window by window, without any padding."""

    def ids(part: str) -> list[int]:
        return small_bert.tokenizer(part, add_special_tokens=False)["input_ids"]

    cls, sep = small_bert.tokenizer.cls_token_id, small_bert.tokenizer.sep_token_id
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
        answer = whyformer.Explainer(small_bert.model, output="logits")(inputs, target, method)
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
def test_windows_are_merged_as_by_hand(small_bert: Pipeline, count: int, method: str) -> None:
    target = None if method == "rollout" else 1
    merged, logits = slow_merge(small_bert, words(count), target, method)
    explanation = small_bert(words(count), target, method)
    assert torch.allclose(explanation.logits[0], logits, atol=1e-4)
    assert explanation.relevance.shape == (1, count)
    assert close(explanation.relevance[0], merged)
    assert explanation.content.all()


def test_the_best_method_is_named_and_every_window_is_heard(
    small_bert: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes of the windows that were read first are told beside those of the last."""
    count = iter(range(100))

    def noted(*_: Any) -> list[str]:
        return [f"a note of part {next(count)}"]

    monkeypatch.setattr("whyformer.recording.notes_of", noted)
    found = small_bert(words(20 * LONGEST), target=0, method="best:presence=1")
    assert found.method == "witness:presence=1"
    parts = next(count)
    assert parts > 1
    assert [n for n in found.notes if n.startswith("a note")] == [
        f"a note of part {i}" for i in range(parts)
    ]


@pytest.mark.parametrize("first", [True, False])
def test_a_long_part_of_a_pair_is_read_beside_the_whole_short_one(
    small_bert: Pipeline, first: bool
) -> None:
    long, short = words(90), "but the film is superb"
    where = {"after": short} if first else {"before": short}
    merged, logits = slow_merge(small_bert, long, 2, "transformer_attribution", **where)
    explanation = small_bert((long, short) if first else (short, long), 2)
    assert torch.allclose(explanation.logits[0], logits, atol=1e-4)
    part = slice(0, 90) if first else slice(5, 95)
    assert explanation.relevance.shape == (1, 95)
    assert close(explanation.relevance[0, part], merged)
    assert joined(explanation) == (f"{long}\n\n{short}" if first else f"{short}\n\n{long}")


def test_two_long_texts_are_refused(small_bert: Pipeline) -> None:
    message = refused(small_bert, (words(30), words(60)))
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


def test_a_tokenizer_that_cuts_on_the_left(small_bert_folder: Path) -> None:
    """Windows run from the start to the end all the same."""
    model = whyformer.load(small_bert_folder)
    model.tokenizer.truncation_side = "left"
    expected = whyformer.load(small_bert_folder)(words(90), 1)
    explanation = model(words(90), 1)
    assert explanation.relevance.shape == (1, 90)
    assert close(explanation.relevance, expected.relevance)
    assert [word for word, _ in explanation.words()[0]] == words(90).split()


def test_several_targets_with_windows(small_bert: Pipeline) -> None:
    both = small_bert(words(90), [[0, 2]])
    assert both.relevance.shape == (1, 2, 90)
    assert both.target.tolist() == [[0, 2]]
    for i, target in enumerate((0, 2)):
        assert close(both.relevance[0, i], small_bert(words(90), target).relevance[0])


def test_a_function_as_target_with_windows(small_bert: Pipeline) -> None:
    def ask(logits: Tensor) -> Tensor:
        return logits[:, 0] - logits[:, 1]

    explanation = small_bert(words(90), ask)
    assert explanation.target is None
    merged, _ = slow_merge(small_bert, words(90), ask, "transformer_attribution")
    assert close(explanation.relevance[0], merged)


def test_the_predicted_class_is_that_of_the_mean_logits(small_bert: Pipeline) -> None:
    explanation = small_bert(words(90))
    assert explanation.target.tolist() == explanation.logits.argmax(-1).tolist()
    assert close(explanation.relevance, small_bert(words(90), int(explanation.target)).relevance)


def test_one_recording_of_windows_answers_everything(small_bert: Pipeline) -> None:
    recorded = small_bert.record(words(500))  # more windows than are kept
    one, other = recorded.explain(0), recorded.explain(1)
    assert torch.equal(one.logits, other.logits)
    assert not close(one.relevance, other.relevance)
    assert {answer.method for answer in recorded.compare(0, ["rollout", "gradcam"])} == {
        "rollout",
        "gradcam",
    }


def test_long_texts_of_a_batch_are_refused(small_bert: Pipeline) -> None:
    message = refused(small_bert, ["superb", words(90)])
    assert "text 1 has 92 pieces" in message
    assert "one at a time" in message


def test_blocks_of_windows_cannot_be_kept(small_bert: Pipeline) -> None:
    assert "windows" in refused(small_bert, words(90), keep_blocks=True)


def test_a_long_text_is_saved_in_every_form(small_bert: Pipeline, tmp_path: Path) -> None:
    explanation = small_bert(words(90), [[0, 1]])
    for ending in ("png", "html", "json", "npz", "tex", "svg"):
        saved = explanation.save(tmp_path / f"why.{ending}").read_bytes()
        readable = ending not in ("png", "npz")
        assert saved.count(b"superb") >= words(90).split().count("superb") * readable
    assert whyformer.Explanation.load(tmp_path / "why.npz").relevance.equal(explanation.relevance)


def test_robertas_positions_start_behind_the_padding(small_roberta: Pipeline) -> None:
    assert small_roberta.model.config.max_position_embeddings == LONGEST + 2
    assert small_roberta.longest == LONGEST
    text = "film"
    while len(small_roberta.tokenizer(f"{text} film")["input_ids"]) <= LONGEST:
        text += " film"
    pieces = len(small_roberta.tokenizer(text)["input_ids"])
    explanation = small_roberta(text)
    assert pieces == LONGEST
    assert explanation.notes == ()
    assert explanation.relevance.shape == (1, LONGEST)
    beyond = small_roberta(f"{text} film")
    assert "2 windows" in beyond.notes[0]
    assert joined(beyond) == f"{text} film"


def test_the_limit_is_the_smaller_of_tokenizer_and_model(small_bert_folder: Path) -> None:
    from whyformer.models.hugging_face import longest_text

    model = whyformer.load(small_bert_folder)
    assert model.longest == LONGEST
    model.tokenizer.model_max_length = 20
    assert longest_text(model.model, model.tokenizer) == 20


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


def test_windows_that_take_much_memory_are_not_kept(
    small_bert: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One window at a time gives what all windows at once give."""
    text = words(200)
    kept = small_bert.record(text)
    assert kept.bytes > 0
    one = kept.explain(0)
    assert kept.explain([[0, 1]]).relevance[:, 0].equal(one.relevance)
    monkeypatch.setattr("whyformer.models.windows.MOST_BYTES", 2**10)
    lean = small_bert.record(text)
    assert lean.bytes == 0
    torch.testing.assert_close(lean.explain(0).relevance, one.relevance)
    torch.testing.assert_close(lean.logits, kept.logits)


def test_a_recording_knows_how_much_memory_it_takes(small_bert: Pipeline) -> None:
    """Attention maps alone are so many bytes; a question adds its own."""
    short, long = small_bert.record(words(4)), small_bert.record(words(36))
    maps = sum(a.weights.nbytes for a in long._recording.trace.seen.attention)
    weights = sum(parameter.nbytes for parameter in small_bert.model.parameters())
    assert short.bytes < long.bytes < maps * 20
    assert long.bytes > maps
    assert short.bytes < weights
    before = long.bytes
    long.explain(0)
    assert long.bytes > before
