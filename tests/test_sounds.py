"""Sounds: read from files and arrays, heard by classifiers, drawn as spectrograms and played."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from command_line import Run
from small_sounds import RATE, beeps, save_ast, save_wav2vec2, write_wav
from whyformer.errors import InputError, ModelError
from whyformer.explanation import Explanation, Sound
from whyformer.models.hearing import cut, with_sound
from whyformer.models.sounds import read_sound, spectrogram
from whyformer.render.document import document
from whyformer.render.sheets import make_sheet
from whyformer.tokens import Tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sounds")
    save_ast(folder / "ast")
    save_wav2vec2(folder / "wav2vec2")
    write_wav(folder / "beeps.wav", beeps())
    return folder


@pytest.mark.parametrize(("width", "error"), [(1, 0.01), (2, 1e-4), (3, 1e-6), (4, 1e-6)])
def test_files_of_every_width_hold_the_same_sound(width: int, error: float, tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", beeps(), width=width)
    notes: list[str] = []
    for source in (path, str(path), path.read_bytes()):
        heard = read_sound(source, RATE, notes)
        assert np.abs(heard.numpy() - beeps()).max() < error
    assert not notes


def test_a_file_that_was_cut_is_heard_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = write_wav(tmp_path / "a.wav", beeps()).read_bytes()
    notes: list[str] = []
    assert len(read_sound(whole[: len(whole) // 2], RATE, notes)) < RATE
    assert notes == ["the sound ends before its file's header says: what is there was heard"]


def test_samples_come_with_their_rate() -> None:
    notes: list[str] = []
    assert np.array_equal(read_sound((beeps(), RATE), RATE, notes).numpy(), beeps())
    entry = {"array": beeps(), "sampling_rate": RATE, "path": None}
    assert np.array_equal(read_sound(entry, RATE, notes).numpy(), beeps())
    whole = (beeps() * 32767).round().astype(np.int16)
    assert np.abs(read_sound((whole, RATE), RATE, notes).numpy() - beeps()).max() < 1e-4
    assert not notes


def test_channels_are_mixed_and_rates_changed_and_both_are_said(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "a.wav", beeps(rate=44100), rate=44100, channels=2)
    notes: list[str] = []
    heard = read_sound(path, RATE, notes)
    assert notes == [
        "the sound has 2 channels: their mean was heard",
        "the sound has 44100 samples a second: it was resampled to 16000",
    ]
    assert len(heard) == RATE
    inside = slice(500, 6000)
    assert np.abs(heard.numpy() - beeps())[inside].max() < 0.01


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no file": (lambda f: f / "no.wav", "no such file"),
    "a text": (lambda f: "say it again", "no such file: say it again; a sound was expected"),
    "a folder": (lambda f: f, "is a folder; give a sound file"),
    "no rate": (lambda f: beeps(), "a sound was expected, not ndarray.*with their rate"),
    "rate": (lambda f: (beeps(), 0), "has the rate 0; expected samples a second"),
    "empty": (lambda f: (np.zeros(0), RATE), "is empty: there is nothing to hear"),
    "NaN": (lambda f: (np.array([np.nan, 1.0]), RATE), "holds NaN or infinity"),
    "letters": (lambda f: (np.array(["a"]), RATE), "is an array of <U1"),
    "turned": (lambda f: (np.zeros((2, 9)), RATE), r"expected \(samples, channels\): transpose it"),
    "no bytes": (lambda f: b"", "is empty"),
    "no sound": (lambda f: b"hello", "is no .wav file"),
    "damaged": (lambda f: b"RIFF....WAVEfmt ", "is no .wav file that can be read"),
    "an image": (lambda f: Image.new("RGB", (9, 9)), "a sound was expected, not Image"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_sounds_get_one_sentence(case: str, tmp_path: Path) -> None:
    make, sentence = BAD[case]
    with pytest.raises(InputError, match=sentence):
        read_sound(make(tmp_path), RATE, [])


def test_the_spectrogram_shows_tones_where_they_are() -> None:
    picture = spectrogram(Sound(torch.from_numpy(beeps()).unsqueeze(0), RATE), 1.0)[0, 0]
    height, width = picture.shape
    early, late = picture[:, width // 5], picture[:, 4 * width // 5]
    assert int(early.argmax()) > 0.7 * height  # 300 Hz lies low
    assert int(late.argmax()) < 0.5 * height
    assert float(picture[:, width // 2].max()) < 0.2
    assert float(picture.min()) == 0
    assert float(picture.max()) > 0.95


@pytest.mark.parametrize("name", ["Wav2Vec2", "Hubert", "WavLM"])
def test_models_that_hear_samples_load_by_name(name: str, tmp_path: Path) -> None:
    why = whyformer.load(save_wav2vec2(tmp_path / "model", name))
    assert why.takes == "sound"
    found = why((beeps(), RATE), target="high", method="fullgrad")
    features = why.ear.prepare(Sound(torch.from_numpy(beeps()).unsqueeze(0), RATE))  # type: ignore[attr-defined]
    bare = whyformer.Explainer(why.model)(features, target=2, method="fullgrad")
    assert torch.allclose(found.relevance, bare.relevance, rtol=1e-3, atol=1e-6)
    assert torch.equal(found.over_time(), found.relevance)
    assert not found.notes


def test_patches_of_a_spectrogram_are_kept_as_far_as_the_sound_goes(folder: Path) -> None:
    why = whyformer.load(folder / "ast")
    assert why.reads == {"rate": RATE, "seconds": 2.56}
    found = why((beeps(), RATE), target="low")
    sound = Sound(torch.from_numpy(beeps()).unsqueeze(0), RATE)
    bare = whyformer.Explainer(why.model)(why.ear.prepare(sound), target=0)  # type: ignore[attr-defined]
    assert bare.grid == (12, 25)
    assert found.grid == (12, 10)
    whole = bare.tokens.to_map(bare.relevance)
    assert torch.allclose(found.tokens.to_map(found.relevance), whole[..., :10])
    assert torch.allclose(found.over_time(), found.tokens.to_map(found.relevance).sum(-2))
    lost = float(whole[..., 10:].sum() / whole.sum())
    assert lost > 0.005
    said = f"{lost:.0%} of what spoke for it fell on the silence behind the sound"
    assert any(note.startswith(said) for note in found.notes)
    sheet = make_sheet(found)
    assert sheet.kind == "sound"
    rows = sheet.views[0].rows
    assert rows is not None
    assert rows.shape == (120, 120)


def test_low_frequencies_and_their_rows_lie_below() -> None:
    tokens = Tokens("spectrogram", torch.ones(1, 7, dtype=torch.bool), (2, 3), (2, 3), prefix=1)
    numbers = torch.arange(7.0)
    assert tokens.to_map(numbers).tolist() == [[4, 5, 6], [1, 2, 3]]
    assert tokens.over_time(numbers).tolist() == [5, 7, 9]
    matrix = 10 * numbers.view(-1, 1) + numbers
    found = Explanation(
        logits=torch.zeros(1, 2), target=torch.tensor([0]),
        method="rollout", preset="stable", matrix=matrix.unsqueeze(0),
        parts=(whyformer.explanation.Part(tokens, numbers.unsqueeze(0)),),
    )  # fmt: skip
    found = with_sound(found, "input", Sound(torch.rand(1, RATE), RATE), None)
    rows = make_sheet(found).views[0].rows
    assert rows is not None
    assert rows[0].tolist() == [44, 45, 46, 41, 42, 43]
    assert rows[:, 0].tolist() == [44, 54, 64, 14, 24, 34]
    shorter = cut(found, "input", 2)
    assert shorter.tokens.to_map(shorter.relevance).tolist() == [[[4, 5], [1, 2]]]
    assert make_sheet(shorter).views[0].rows[0].tolist() == [44, 45, 41, 42]  # type: ignore[index]
    assert shorter.notes == (
        "43% of what spoke for it fell on the silence behind the sound, which is not drawn",
    )


def test_what_a_model_does_not_read_is_said(folder: Path) -> None:
    ast = whyformer.load(folder / "ast")
    found = ast((beeps(4.0), RATE))
    assert "the sound lasts 4.0 s: the model read the first 2.56" in found.notes
    assert found.parts[0].sound is not None
    assert found.parts[0].sound.samples.shape == (1, round(2.56 * RATE))
    with pytest.raises(InputError, match="one at a time"):
        ast([folder / "beeps.wav"])
    with pytest.raises(InputError, match="lasts 0\\.062 ms, less than one frame"):
        ast((np.ones(1), RATE))
    with pytest.raises(InputError, match="lasts 6\\.2 ms, less than one frame of 25"):
        whyformer.load(folder / "wav2vec2")((beeps()[:100], RATE))


def test_a_sound_is_in_every_file(folder: Path, tmp_path: Path) -> None:
    found = whyformer.load(folder / "wav2vec2")(folder / "beeps.wav")
    for ending in ("png", "html", "svg", "json", "npz", "tex"):
        assert found.save(tmp_path / f"why.{ending}").stat().st_size > 500
    page = document(make_sheet(found), for_page=True)
    assert page["kind"] == "sound"
    assert page["sound"].startswith("data:audio/wav;base64,")
    assert page["image"]["grid"] == [1, found.relevance.shape[1]]


def test_a_model_without_an_extractor_is_refused(tmp_path: Path) -> None:
    folder = save_wav2vec2(tmp_path / "model")
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match="how its sounds are prepared is unknown"):
        whyformer.load(folder)


def test_on_the_command_line(folder: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "why.json"
    code, _, errors = run("explain", folder / "beeps.wav", "--model", folder / "ast", "--out", out)
    assert (code, errors) == (0, "")
    assert json.loads(out.read_text())["kind"] == "sound"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["beeps.wav"], "no embedded model reads sounds; give one with --model"),
        (["a text", "--model", "ast"], "reads sounds, and the input is a text"),
        (["beeps.wav", "--model", "demo-text"], "demo-text reads texts, and the input is a sound"),
        (["no.wav", "--model", "ast"], "no such file: no.wav"),
        (["beeps.wav", "--model", "ast", "--pair", "b"], "the input is a sound"),
    ],
)
def test_bad_questions_on_the_command_line(
    arguments: list[str], sentence: str, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, _, errors = run("explain", *arguments)
    assert code == 2
    assert sentence in errors
