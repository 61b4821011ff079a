"""Sounds: from a file or samples to what a model hears, and the picture of it."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.errors import InputError, first_line
from whyformer.explanation import Sound
from whyformer.files import FOLDER, what_is

#: a file, its bytes, samples with their rate, or an entry of a Hugging Face dataset
SoundInput = str | Path | bytes | tuple[Any, int] | Mapping[str, Any]

#: seconds of one frame, by which nearly all models hear
SHORTEST = 0.025
#: the picture of a sound: frequencies from below, and how many pixels make a second
PICTURE_HEIGHT, PIXELS_A_SECOND = 160, 64
NARROWEST, WIDEST = 480, 960
#: how far below the loudest a tone may be to be seen
DECIBELS = 70


def read_sound(source: SoundInput, rate: int, notes: list[str]) -> Tensor:
    """(samples,) from -1 to 1 at a rate, one channel.

    What was decided on the way (channels mixed, another rate) goes to ``notes``.
    """
    name = "the sound"
    if isinstance(source, str | Path):
        path = Path(source)
        kind = what_is(path)
        if kind is None:
            raise InputError(f"no such file: {path}; a sound was expected, such as a .wav file")
        if kind == FOLDER:
            raise InputError(f"{path} is a folder; give a sound file")
        name = str(path)
        samples, own = decode(path, name, notes)
    elif isinstance(source, bytes):
        samples, own = decode(io.BytesIO(source), "the given bytes", notes)
    elif isinstance(source, Mapping) and {"array", "sampling_rate"} <= set(source):
        samples, own = np.asarray(source["array"]), source["sampling_rate"]
    elif isinstance(source, tuple) and len(source) == 2 and not isinstance(source[0], str):
        samples, own = np.asarray(source[0]), source[1]
    else:
        raise InputError(
            f"a sound was expected, not {type(source).__name__}; give a .wav file, its bytes, or "
            "samples with their rate: (samples, 16000)"
        )
    return at_rate(one_channel(as_floats(samples, name), name, notes), own, rate, name, notes)


def decode(source: Path | io.BytesIO, name: str, notes: list[str]) -> tuple[np.ndarray, int]:
    """Samples, (length,) or (length, channels), and their rate."""
    try:
        data = source.read_bytes() if isinstance(source, Path) else source.getvalue()
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error
    if not data:
        raise InputError(f"{name} is empty; a sound was expected, such as a .wav file")
    if data[:4] not in (b"RIFF", b"RIFX", b"RF64"):
        with soundfile(name) as reader:  # FLAC, Ogg and MP3, where it is installed
            return reader.read(io.BytesIO(data))
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", wavfile.WavFileWarning)
            rate, samples = wavfile.read(io.BytesIO(data))
    except Exception as error:  # the reader raises whatever a damaged file makes it stumble over
        raise InputError(f"{name} is no .wav file that can be read: {first_line(error)}") from error
    # Other warnings speak of chunks beside the sound, which nobody needs.
    if any("prematurely" in str(warning.message) for warning in said):
        notes.append("the sound ends before its file's header says: what is there was heard")
    return samples, rate


def other_length(data: bytes, name: str) -> tuple[int, int]:
    """The samples a second of what is no .wav, and how many there are, by its header."""
    with soundfile(name) as reader:
        found = reader.info(io.BytesIO(data))
        return int(found.samplerate), int(found.frames)


@contextmanager
def soundfile(name: str) -> Iterator[Any]:
    try:
        import soundfile  # type: ignore[import-not-found]
    except ImportError as error:
        raise InputError(
            f"{name} is no .wav file; others are read with soundfile: pip install soundfile"
        ) from error
    try:
        yield soundfile
    except Exception as error:
        raise InputError(f"{name} is no sound that can be read: {first_line(error)}") from error


def as_floats(samples: np.ndarray, name: str) -> np.ndarray:
    """Whole numbers by their type's range, from -1 to 1; eight bits have their zero at 128."""
    if samples.ndim not in (1, 2) or samples.dtype.kind not in "iuf":
        raise InputError(
            f"{name} is an array of {samples.dtype} and shape {samples.shape}; expected numbers, "
            "(samples,) or (samples, channels)"
        )
    if samples.size == 0:
        raise InputError(f"{name} is empty: there is nothing to hear")
    if samples.dtype.kind == "f":
        if not np.isfinite(samples).all():
            raise InputError(f"{name} holds NaN or infinity")
        return samples.astype(np.float64)
    most = 2.0 ** (8 * samples.dtype.itemsize - 1)
    return samples / most - (samples.dtype.kind == "u")


def one_channel(samples: np.ndarray, name: str, notes: list[str]) -> np.ndarray:
    if samples.ndim == 1:
        return samples
    channels = samples.shape[1]
    if channels > samples.shape[0]:
        raise InputError(
            f"{name} is an array of shape {samples.shape}; expected (samples, channels): "
            "transpose it"
        )
    if channels > 1:
        notes.append(f"the sound has {channels} channels: their mean was heard")
    return samples.mean(1)


def at_rate(samples: np.ndarray, own: Any, rate: int, name: str, notes: list[str]) -> Tensor:
    if isinstance(own, bool) or not isinstance(own, int | np.integer) or own <= 0:
        raise InputError(f"{name} has the rate {own!r}; expected samples a second, such as 16000")
    own = int(own)
    if own != rate:
        from scipy.signal import resample_poly

        shared = math.gcd(own, rate)
        samples = resample_poly(samples, rate // shared, own // shared)
        notes.append(f"the sound has {own} samples a second: it was resampled to {rate}")
    return torch.from_numpy(np.ascontiguousarray(samples, np.float32)).clamp(-1, 1)


def spectrogram(sound: Sound, seconds: float) -> Tensor:
    """(batch, 1, height, width) from 0 to 1: loudness on a mel scale, low frequencies below."""
    from transformers.audio_utils import mel_filter_bank

    length = max(1, round(seconds * sound.rate))
    samples = F.pad(sound.samples, (0, max(0, length - sound.samples.shape[-1])))[..., :length]
    width = min(WIDEST, max(NARROWEST, round(seconds * PIXELS_A_SECOND)))
    window = 512
    short = F.pad(samples, (0, max(0, window - length)))
    bins = torch.stft(
        short,
        window,
        hop_length=max(1, length // width),
        window=torch.hann_window(window),
        pad_mode="constant",
        return_complex=True,
    ).abs()
    with warnings.catch_warnings():  # low bands are narrower than a bin and stay dark
        warnings.simplefilter("ignore", UserWarning)
        filters = mel_filter_bank(
            window // 2 + 1, 80, 20.0, sound.rate / 2, sound.rate, mel_scale="kaldi"
        )
    bands = torch.from_numpy(filters).to(bins).mT @ bins**2
    loudness = 10 * bands.clamp(min=1e-10).log10()
    top = loudness.amax((-2, -1), keepdim=True)
    shown = ((loudness - top) / DECIBELS + 1).clamp(0, 1).flip(-2)
    size = (PICTURE_HEIGHT, width)
    return F.interpolate(shown.unsqueeze(1), size, mode="bilinear", align_corners=False)


@dataclass(frozen=True)
class Ear:
    """A feature extractor: the rate it hears at, and the seconds that it always reads, if fixed."""

    extractor: Any

    @property
    def rate(self) -> int:
        return int(self.extractor.sampling_rate)

    @property
    def seconds(self) -> float | None:
        """Shorter sounds are filled up with silence to that length, longer ones cut."""
        if hasattr(self.extractor, "n_samples"):
            return self.extractor.n_samples / self.rate
        frames = getattr(self.extractor, "max_length", None)
        return frames / 100 if isinstance(frames, int) else None

    def hear(self, source: SoundInput, notes: list[str]) -> Sound:
        """A sound as far as the model reads it."""
        samples = read_sound(source, self.rate, notes)
        if len(samples) < SHORTEST * self.rate:
            raise InputError(
                f"the sound lasts {1000 * len(samples) / self.rate:.2g} ms, less than one frame of "
                f"{1000 * SHORTEST:g}; give a longer one"
            )
        longest = self.seconds
        if longest is not None and len(samples) > longest * self.rate:
            notes.append(
                f"the sound lasts {len(samples) / self.rate:.1f} s: the model read the first "
                f"{longest:g}"
            )
            samples = samples[: round(longest * self.rate)]
        return Sound(samples.unsqueeze(0), self.rate)

    def prepare(self, sound: Sound) -> dict[str, Tensor]:
        return dict(
            self.extractor(sound.samples[0].numpy(), sampling_rate=self.rate, return_tensors="pt")
        )
