"""Sound classifiers, and how any explanation of a sound is shown."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import InputError, ModelError, first_line
from whyformer.explainer import Explainer
from whyformer.explanation import Explanation, Part, Sound
from whyformer.models.hugging_face import is_prepared
from whyformer.models.pipeline import Pipeline
from whyformer.models.recorded import RecordedInput
from whyformer.models.sounds import Ear, SoundInput, spectrogram


class Hearing(Pipeline):
    """A model with a feature extractor for sounds."""

    ear: Ear

    @property
    def reads(self) -> dict[str, Any]:
        return {"rate": self.ear.rate, "seconds": self.ear.seconds}

    def _prepared_example(self) -> bytes:
        noise = torch.rand(1, 2 * self.ear.rate, generator=torch.Generator().manual_seed(0)) - 0.5
        prepared = self.ear.prepare(Sound(noise, self.ear.rate))
        values: Tensor = next(v for v in prepared.values() if v.is_floating_point())
        return (values * 1000).round().to(torch.int32).numpy().tobytes()


class SoundPipeline(Hearing):
    """A sound classifier with its own feature extractor.

    Reads a .wav file, its bytes, or samples with their rate: (samples, 16000). The picture is the
    sound's spectrogram; relevance is told along time, or for each time and frequency where the
    model reads patches of a spectrogram.
    """

    kind = takes = "sound"

    def __init__(self, name: str, explainer: Explainer, ear: Ear) -> None:
        super().__init__(name, explainer)
        self.ear = ear

    def record(self, inputs: SoundInput, *, progress: bool = False) -> RecordedInput:
        """Hear a sound and run the model's forward."""
        notes: list[str] = []
        sound = self.ear.hear(alone(inputs), notes)
        recording = self.explainer.record(self.ear.prepare(sound))

        def show(found: Explanation) -> Explanation:
            return with_sound(found, found.tokens.name, sound, self.ear.seconds)

        return RecordedInput(self, recording, notes, show, held=sound.samples.nbytes)


def with_sound(
    explanation: Explanation, name: str, sound: Sound, covered: float | None
) -> Explanation:
    """The part with that name as its sound and spectrogram, as far as the sound goes.

    ``covered`` are the seconds that the part's tokens stand for; the silence that fills a sound up
    to them is left out, and what fell on it is said.
    """
    tokens = explanation.part(name).tokens
    times = tokens.grid[1] if tokens.grid else tokens.content.shape[1]
    seconds = sound.samples.shape[-1] / sound.rate
    covered = covered or seconds
    kept = min(times, math.ceil(times * seconds / covered))
    if kept < times:
        explanation = cut(explanation, name, kept)
    picture = spectrogram(sound, covered * kept / times)
    return explanation.showing(name, picture=picture, sound=sound, title="sound")


def cut(explanation: Explanation, name: str, times: int) -> Explanation:
    """Without the tokens of a part behind the first ``times`` along the time axis."""
    part = explanation.part(name)
    tokens, relevance = part.tokens, part.relevance
    numbers = torch.arange(relevance.shape[-1])
    places, grid = numbers[:times], None
    if tokens.grid is not None:
        grid = (tokens.grid[0], times)
        own = numbers[tokens.patches].unflatten(0, tokens.grid)[:, :times].flatten()
        places = torch.cat([numbers[: tokens.prefix], own])
    tokens = replace(tokens, content=tokens.content[:, places], grid=grid)
    changed = replace(part, tokens=tokens, relevance=relevance[..., places])
    notes = explanation.notes
    before, after = spoken_for(part), spoken_for(changed)
    outside = 1 - after / before if before > 0 else 0.0
    if outside >= 0.005:
        notes += (
            f"{outside:.0%} of what spoke for it fell on the silence behind the sound, which is "
            "not drawn",
        )
    matrix, rows = explanation.matrix, explanation.rows
    if part is explanation.parts[0]:
        matrix = None if matrix is None else matrix[..., places, :][..., places]
        rows = None if rows is None else rows[..., places]
    shorter = explanation.showing(name, tokens=tokens, relevance=changed.relevance)
    return replace(shorter, matrix=matrix, rows=rows, notes=notes)


def spoken_for(part: Part) -> float:
    """What the part's content spoke for the target, in all."""
    return float(part.tokens.over_time(part.relevance.clamp(min=0)).sum())


def alone(inputs: Any) -> Any:
    """Sounds last differently long: each has a forward of its own."""
    if isinstance(inputs, list):
        raise InputError(
            f"a list of {len(inputs)} was given; sounds are explained one at a time, and samples "
            "come as an array with their rate: (samples, 16000)"
        )
    return inputs


def sound_encoder(model: Any) -> bool:
    """Whether the model's own convolutions read samples."""
    return getattr(model, "main_input_name", "") == "input_values" and hasattr(
        model.config, "conv_kernel"
    )


def ear_of(folder: Path, name: str) -> Ear:
    """The feature extractor of a model's directory."""
    from transformers import AutoFeatureExtractor

    if not is_prepared(folder):
        raise ModelError(
            f"{name} has no preprocessor_config.json: how its sounds are prepared is unknown; add "
            "it, or prepare the features yourself and use whyformer.Explainer(model)"
        )
    try:
        with warnings.catch_warnings():  # mel filters that are empty by design
            warnings.simplefilter("ignore", UserWarning)
            extractor = AutoFeatureExtractor.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        raise ModelError(
            f"{name}'s feature extractor cannot be used: {first_line(error)}"
        ) from error
    return Ear(extractor)


def sound_pipeline(folder: Path, name: str, explainer: Explainer) -> SoundPipeline:
    return SoundPipeline(name, explainer, ear_of(folder, name))
