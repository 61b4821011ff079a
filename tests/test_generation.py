"""Real models that write: a Llama's next words, and a Whisper's words in the sound they are in."""

from __future__ import annotations

import wave
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import whyformer
from conftest import shared

METHODS = ("gradient_x_input", "fullgrad", "generic_attention", "transformer_attribution")
#: seconds of sound that one of Whisper's tokens stands for
FRAME = 0.02


@pytest.mark.slow
def test_a_word_is_explained_as_if_the_text_ended_before_it() -> None:
    """A causal model's later words change nothing about why an earlier one was written."""
    from transformers import AutoTokenizer, LlamaForCausalLM

    folder = shared("data", "stories15M")
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "Once upon a time, there was a little girl named Lily. She loved to play outside"
    ids = tokenizer(text, return_tensors="pt").input_ids
    recording = whyformer.Explainer(model).record({"input_ids": ids})
    girl, boy = (int(tokenizer(f" {word}").input_ids[-1]) for word in ("girl", "boy"))
    for method in METHODS:
        for position in (4, 9, ids.shape[1] - 1):
            for target in ((position, girl), whyformer.contrast((position, girl), (position, boy))):
                whole = recording.explain(target, method).relevance[0]
                cut = {"input_ids": ids[:, : position + 1]}
                alone = whyformer.Explainer(model)(cut, target, method).relevance[0]
                assert torch.allclose(whole[: position + 1], alone, rtol=1e-6, atol=1e-12)
                assert not whole[position + 1 :].any()


def heard() -> tuple[Any, torch.Tensor, torch.Tensor, list[float]]:
    """Whisper, the sound's features, the words it heard, and when, by its own time stamps."""
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    folder = shared("data", "whisper_tiny_en")
    processor = WhisperProcessor.from_pretrained(folder)
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    with wave.open(str(folder / "jfk.wav")) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), np.int16) / 32768
        rate = file.getframerate()
    features = processor(sound, sampling_rate=rate, return_tensors="pt").input_features
    said = model.generate(features, return_token_timestamps=True, return_dict_in_generate=True)
    return model, features, said["sequences"], said["token_timestamps"][0].tolist()


@pytest.mark.slow
def test_a_words_relevance_falls_on_the_sound_of_the_word() -> None:
    """Where half a second holds most relevance is where the word is said, word after word.

    The words' times are Whisper's own: its decoder's attention, aligned with the sound.
    """
    model, features, words, times = heard()
    given = {"input_features": features, "decoder_input_ids": words[:, :-1]}
    recording = whyformer.Explainer(model).record(given)
    assert [part.name for part in recording.explain((1, 1)).parts] == [
        "input_features",
        "decoder_input_ids",
    ]
    spoken = range(1, words.shape[1] - 2)
    for method in ("fullgrad", "generic_attention"):
        peaks = []
        for position in spoken:
            target = (position, int(words[0, position + 1]))
            frames = recording.explain(target, method, gradient="libra").relevance.clamp(min=0)
            around = torch.nn.functional.avg_pool1d(frames, 25, 1, 12)
            peaks.append(float(around.argmax()) * FRAME)
        expected = [times[position + 1] for position in spoken]
        assert spearmanr(peaks, list(spoken)).statistic > 0.98
        assert np.median(np.abs(np.subtract(peaks, expected))) < 0.35
