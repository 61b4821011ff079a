"""Models that write from a source: translation and speech, word by word, in two parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from command_line import Run
from conftest import shared
from small_sounds import RATE, beeps
from small_writers import WRITERS, save_whisper, save_writer
from whyformer.errors import InputError, ModelError, TargetError
from whyformer.models.answers import RecordedAnswer
from whyformer.render.alignment import ROW, is_answer
from whyformer.render.document import document
from whyformer.render.sheets import make_sheet

SOURCE = "the small dog runs"
ANSWER = "das Haus ist klein"


@pytest.fixture(scope="module")
def why(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return whyformer.load(save_writer(tmp_path_factory.mktemp("t5")))


@pytest.fixture(scope="module")
def recorded(why: Any) -> RecordedAnswer:
    return why.record(SOURCE, answer=ANSWER)


@pytest.mark.parametrize("family", WRITERS)
def test_every_token_of_an_answer_is_explained(family: str, tmp_path: Path) -> None:
    why = whyformer.load(save_writer(tmp_path, family))
    recorded = why.record(SOURCE)
    assert isinstance(recorded, RecordedAnswer)
    found = recorded.explain()
    assert [part.title for part in found.parts] == ["source", "words so far"]
    assert found.relevance.shape[:2] == (1, len(recorded))
    ids = why.tokenizer([SOURCE], return_tensors="pt")
    given = {**ids, "decoder_input_ids": torch.tensor([recorded.ids[:-1]])}
    bare = whyformer.Explainer(why.model, output="logits").record(given)
    for number in (0, len(recorded) - 1):
        row = int(found.position[0, number])  # type: ignore[index]
        alone = bare.explain((row, recorded.ids[row + 1]), found.method)
        for part, other in zip(found.parts, alone.parts, strict=True):
            assert torch.allclose(part.relevance[:, number], other.relevance, atol=1e-6)


def test_the_answer_is_what_the_model_writes(why: Any) -> None:
    ids = why.tokenizer([SOURCE], return_tensors="pt")
    expected = why.model.generate(**ids)[0]
    recorded = why.record(SOURCE)
    assert recorded.ids == expected.tolist()
    assert recorded.text == why.tokenizer.decode(expected, skip_special_tokens=True).strip()
    assert "".join(recorded.words).strip() == recorded.text
    shorter = why.generate(SOURCE, 2, min_new_tokens=1)
    assert shorter.ids == recorded.ids[:3]
    assert "the answer was cut after 2 tokens" in shorter[0].notes


def test_a_given_answer_is_read_as_it_was_taught(recorded: RecordedAnswer, why: Any) -> None:
    assert recorded.text == ANSWER
    labels = why.tokenizer(ANSWER)["input_ids"]
    assert recorded.ids == [0, *labels]
    assert labels[-1] == 1
    assert len(recorded) == len(labels) - 1
    assert not any("cut after" in note for note in recorded[0].notes)


def test_later_words_change_nothing(recorded: RecordedAnswer, why: Any) -> None:
    first = recorded[1]
    cut = why.generate(SOURCE, 1, min_new_tokens=1)
    assert cut.ids[0] == 0
    row = int(first.position[0])  # type: ignore[index]
    written = first.part("decoder_input_ids").relevance[0]
    assert not written[row + 1 :].any()
    shorter = why.record(SOURCE, answer="das Haus")
    assert torch.allclose(shorter[1].relevance, first.relevance, atol=1e-6)


def test_words_of_the_answer_are_targets(recorded: RecordedAnswer) -> None:
    numbers = {word.strip(): i for i, word in enumerate(recorded.words)}
    found = recorded.explain("Haus", "fullgrad")
    place = numbers["Haus"]
    same = recorded.explain(None, "fullgrad", position=place)
    assert torch.equal(found.relevance, same.relevance)
    assert torch.equal(found.relevance, recorded.explain((place, None), "fullgrad").relevance)
    several = recorded.explain([["das", "klein"]], "fullgrad")
    assert several.asked == ("das", "klein")
    both = recorded.explain(whyformer.contrast("Haus", "Garten"), "fullgrad", position=place)
    assert both.asked == ("Haus rather than Garten",)
    other = recorded.explain(" Garten", "fullgrad", position=place)
    assert torch.allclose(both.relevance, found.relevance - other.relevance, atol=1e-5)


def test_a_word_of_several_tokens_is_their_sum(why: Any) -> None:
    recorded = why.record(SOURCE, answer="das Hundhaus ist")
    assert len(recorded) > 3
    found = recorded.explain("Hundhaus", "fullgrad")
    assert found.asked == ("Hundhaus",)
    places = range(1, len(recorded) - 1)
    parts = [recorded.explain(None, "fullgrad", position=i).relevance for i in places]
    assert torch.allclose(found.relevance, torch.stack(parts).sum(0), atol=1e-5)


BAD_TARGETS = {
    "cat": ("cat", {}, "the answer has no word 'cat': it is 'das Haus ist klein'"),
    "position": (None, {"position": 99}, r"position 99 of an answer with \d+ tokens"),
    "no number": (None, {"position": "x"}, "give the number of a token of the answer"),
    "no token": ("zebra", {"position": 0}, "is no single token of this model"),
    "three": ((1, 2, 3), {}, r"give \(position, word\)"),
    "nowhere": (whyformer.contrast(None, "das"), {}, "say where the other word would have stood"),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_bad_targets_get_one_sentence(case: str, recorded: RecordedAnswer) -> None:
    target, options, sentence = BAD_TARGETS[case]
    with pytest.raises(TargetError, match=sentence):
        recorded.explain(target, **options)


BAD_SOURCES = {
    "list": ([SOURCE], "a text was expected, not list; sources are explained one at a time"),
    "empty": (" ", "the text is empty"),
    "number": (3, "a text was expected, not int"),
}


@pytest.mark.parametrize("case", BAD_SOURCES)
def test_bad_sources_get_one_sentence(case: str, why: Any) -> None:
    source, sentence = BAD_SOURCES[case]
    with pytest.raises(InputError, match=sentence):
        why(source)


def test_limits_are_said(tmp_path: Path, why: Any) -> None:
    bart = whyformer.load(save_writer(tmp_path / "bart", "bart"))
    assert bart.reads == {"longest": 64}
    with pytest.raises(InputError, match="more than the 64 that"):
        bart(SOURCE * 40)
    with pytest.raises(InputError, match="an answer of 0 tokens was asked for"):
        why.generate(SOURCE, 0)
    llava = {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava"}
    (tmp_path / "config.json").write_text(json.dumps(llava))
    with pytest.raises(ModelError, match="which whyformer does not load by name"):
        whyformer.load(tmp_path)


def test_words_that_stand_twice_have_a_view_each(why: Any, tmp_path: Path) -> None:
    recorded = why.record(SOURCE, answer="das Haus ist das Haus")
    found = recorded.explain("das")
    assert found.relevance.shape[1] == 2
    sheet = make_sheet(found)
    assert [score.name for score in sheet.asked] == ["das", "das"]
    assert len({score.index for score in sheet.asked}) == 2
    rows = [int(row) for row in found.position[0]]  # type: ignore[index]
    expected = [float(recorded.logits[0, row].softmax(-1)[recorded.ids[row + 1]]) for row in rows]
    assert [score.probability for score in sheet.asked] == pytest.approx(expected, rel=1e-5)
    for ending in ("png", "html", "svg", "json", "npz", "tex"):
        found.save(tmp_path / f"why.{ending}")
    assert len(document(sheet)["others"][0]["views"]) == 2


def test_many_words_are_rows_of_one_picture(recorded: RecordedAnswer, tmp_path: Path) -> None:
    found = recorded.explain()
    sheet = make_sheet(found)
    assert is_answer(sheet)
    assert not is_answer(make_sheet(recorded.explain("Haus")))
    with Image.open(found.save(tmp_path / "why.png")) as drawn:
        picture = np.asarray(drawn.convert("RGB")).astype(int)
    assert picture.shape[0] < 500
    blue = (picture[..., 2] - picture[..., 0] > 60).sum(1)
    assert (blue >= ROW).sum() >= (ROW - 1) * len(sheet.views)  # a strong cell in every row


def test_start_tokens_have_no_part_in_the_colours(recorded: RecordedAnswer) -> None:
    found = recorded.explain("das")
    sheet = make_sheet(found)
    content = [part.relevance[0][part.content[0]].max() for part in found.parts]
    assert sheet.views[0].top == pytest.approx(float(max(content)))
    marked = float(found.parts[1].relevance[0, 0] / found.parts[1].relevance[0].sum())
    assert marked == 1  # no word stands before the first
    assert any(f"the start tokens have {marked:.0%}" in note for note in found.notes)


def test_a_class_agnostic_method_has_one_map(recorded: RecordedAnswer) -> None:
    found = recorded.explain(None, "rollout")
    assert found.target is None
    assert found.relevance.ndim == 2


class TestSpeech:
    @pytest.fixture(scope="class")
    def whisper(self, tmp_path_factory: pytest.TempPathFactory) -> Any:
        return whyformer.load(save_whisper(tmp_path_factory.mktemp("whisper")))

    def test_a_sound_and_the_words_so_far(self, whisper: Any, tmp_path: Path) -> None:
        assert whisper.takes == "sound"
        found = whisper((beeps(), RATE))
        assert [part.title for part in found.parts] == ["sound", "words so far"]
        assert found.relevance.shape == (1, 5, 50)  # one of the two seconds that it reads
        assert found.over_time().shape == (1, 5, 50)
        assert found.parts[0].sound is not None
        page = document(make_sheet(found), for_page=True)
        assert page["sound"].startswith("data:audio/wav")
        assert [c["label"] for c in page["classes"]] == list(found.asked)
        assert found.save(tmp_path / "why.png").stat().st_size > 1000

    def test_bad_sounds_get_one_sentence(self, whisper: Any) -> None:
        with pytest.raises(InputError, match="a sound was expected"):
            whisper("ask not what your country can do")
        with pytest.raises(InputError, match="one at a time"):
            whisper([(beeps(), RATE)])
        notes = whisper((beeps(3.0), RATE), position=0).notes
        assert "the sound lasts 3.0 s: the model read the first 2" in notes


@pytest.mark.slow
def test_the_time_of_the_relevance_follows_the_speech() -> None:
    """A real Whisper: half a second around each word's peak is where the word is said."""
    folder = shared("data", "whisper_tiny_en")
    why = whyformer.load(folder)
    recorded = why.record(folder / "jfk.wav")
    assert isinstance(recorded, RecordedAnswer)
    assert recorded.text.startswith("And so my fellow Americans ask not what your country")
    spoken = {"And": 0.4, "Americans": 1.9, "not": 4.3, "country": None, "you": None}
    peaks = []
    for number in (0, 4, 6, 9, 15, 18, 22):
        frames = recorded[number].over_time()
        around = torch.nn.functional.avg_pool1d(frames, 25, 1, 12)
        peaks.append(float(around.argmax()) * 0.02)
        expected = spoken.get(recorded.words[number].strip())
        assert expected is None or abs(peaks[-1] - expected) < 0.6
    assert peaks == sorted(peaks)
    assert np.ptp(peaks) > 8


def test_on_the_command_line(run: Run, tmp_path: Path) -> None:
    model = save_writer(tmp_path / "t5")
    out = tmp_path / "why.json"
    code, output, errors = run("explain", SOURCE, "--model", model, "--out", out)
    assert code == 0
    assert "likeliest" not in output + errors
    every = json.loads(out.read_text())
    assert every["views"][0]["method"] == "generic_attention:gradient=libra"
    assert [other["part"] for other in every["others"]] == ["words so far"]
    word = every["classes"][0]["label"]
    assert run("explain", SOURCE, "--model", model, "--target", word, "--out", out)[0] == 0
    assert json.loads(out.read_text())["views"][0]["scores"] == every["views"][0]["scores"]
    at = ("--position", 1, "--method", "fullgrad", "--rather-than", "Garten")
    assert run("explain", SOURCE, "--model", model, *at, "--out", out)[0] == 0
    assert json.loads(out.read_text())["views"][0]["label"].endswith("rather than Garten")
    code, _, errors = run("explain", SOURCE, "--model", model, "--target", "zebra")
    assert code == 2
    assert "the answer has no word 'zebra'" in errors
