"""Video classifiers: from frames, a folder of them or an animation to what the model reads."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageSequence
from torch import Tensor

from whyformer.errors import InputError, ModelError
from whyformer.explainer import Explainer
from whyformer.explanation import Explanation
from whyformer.files import FOLDER, IMAGE_ENDINGS, check_no_film, what_is
from whyformer.models.hugging_face import is_prepared, load_processor
from whyformer.models.image_files import MOST_PIXELS, ImageInput, read_image, readable, to_rgb
from whyformer.models.pipeline import Pipeline
from whyformer.models.recorded import RecordedInput

#: an animation, a folder of frames, or the frames themselves
VideoInput = str | Path | bytes | Sequence[ImageInput]

#: a frame's height in the strip
FRAME_HEIGHT = 128


class VideoPipeline(Pipeline):
    """A video classifier with its own preprocessing.

    Reads frames as a list, a folder of them, or an animation (GIF, WebP); as many as the model
    takes, evenly spaced. They are drawn side by side.
    """

    kind = takes = "video"

    def __init__(self, name: str, explainer: Explainer, processor: Any, count: int) -> None:
        super().__init__(name, explainer)
        self._processor, self.count = processor, count

    def record(self, inputs: VideoInput, *, progress: bool = False) -> RecordedInput:
        """Read a video and run the model's forward."""
        notes: list[str] = []
        frames = chosen(read_frames(inputs, notes), self.count, notes)
        pixels = self._prepare(frames)
        recording = self.explainer.record({"pixel_values": pixels})
        seen = self._seen(pixels)
        return RecordedInput(self, recording, notes, partial(in_a_strip, seen), held=seen.nbytes)

    @property
    def reads(self) -> dict[str, Any]:
        return {"frames": self.count}

    def _prepare(self, frames: list[Image.Image]) -> Tensor:
        """(1, frames, channels, height, width)."""
        return self._processor(frames, return_tensors="pt")["pixel_values"]

    def _seen(self, pixels: Tensor) -> Tensor:
        """The frames before they were normalised, from 0 to 1."""
        processor = self._processor
        if getattr(processor, "do_normalize", True):
            mean, std = (
                torch.tensor(values).view(-1, 1, 1)
                for values in (processor.image_mean, processor.image_std)
            )
            pixels = pixels * std + mean
        if getattr(processor, "offset", False):  # ViViT's values go from -1 to 1
            pixels = (pixels + 1) / 2
        return pixels.clamp(0, 1)

    def _prepared_example(self) -> bytes:
        noise = np.random.default_rng(0).integers(0, 256, (self.count, 60, 90, 3), dtype=np.uint8)
        prepared = self._prepare([Image.fromarray(frame) for frame in noise])
        return (prepared * 1000).round().to(torch.int32).numpy().tobytes()


def in_a_strip(frames: Tensor, explanation: Explanation) -> Explanation:
    """The explanation of a video with its frames side by side, as many as the model tells apart."""
    volume = explanation.tokens.volume
    assert volume is not None
    each = frames.shape[1] // volume[0]
    picture = strip(frames[:, ::each][:, : volume[0]])
    shown = explanation.showing(explanation.tokens.name, picture=picture)
    if each == 1:
        return shown
    note = f"the model reads {each} frames as one: the first of them is drawn"
    return replace(shown, notes=(note, *shown.notes))


def strip(frames: Tensor) -> Tensor:
    """(batch, frames, channels, height, width) side by side: (batch, channels, height, width)."""
    batch, count, *_, height, width = frames.shape
    size = (FRAME_HEIGHT, max(1, round(FRAME_HEIGHT * width / height)))
    small = F.interpolate(frames.flatten(0, 1), size, mode="area")
    return small.unflatten(0, (batch, count)).permute(0, 2, 3, 1, 4).flatten(-2)


def chosen(frames: list[Image.Image], count: int, notes: list[str]) -> list[Image.Image]:
    """As many frames as a model takes, evenly spaced."""
    if len({frame.size for frame in frames}) > 1:
        raise InputError("the frames have different sizes; give frames of one video")
    if len(frames) > count:
        notes.append(f"the video has {len(frames)} frames: {count} were read, evenly spaced")
    elif len(frames) < count:
        notes.append(
            f"the video has {len(frames)} frames, fewer than the {count} that the model reads: "
            "some were read more than once"
        )
    places = np.linspace(0, len(frames) - 1, count).round().astype(int)
    return [frames[place] for place in places]


def read_frames(source: VideoInput, notes: list[str]) -> list[Image.Image]:
    """All frames of a video; what was decided on the way goes to ``notes``, each once."""
    said: list[str] = []
    if isinstance(source, list | tuple) or (isinstance(source, np.ndarray) and source.ndim == 4):
        frames = [read_image(frame, said) for frame in source]
    elif isinstance(source, bytes):
        frames = animation(io.BytesIO(source), "the given bytes", said)
    elif isinstance(source, str | Path):
        path = Path(source)
        kind = what_is(path)
        if kind is None:
            raise InputError(
                f"no such file: {path}; a video was expected: a folder of frames, a GIF or a WebP"
            )
        if kind == FOLDER:
            files = sorted(f for f in path.iterdir() if f.suffix.lower() in IMAGE_ENDINGS)
            frames = [read_image(file, said) for file in files]
        else:
            check_no_film(path)
            frames = animation(path, str(path), said)
    else:
        raise InputError(
            f"a video was expected, not {type(source).__name__}; give a list of frames, a folder "
            "of them, or an animated GIF or WebP"
        )
    if not frames:
        raise InputError("the video has no frames; give at least one")
    notes.extend(dict.fromkeys(said))
    return frames


def animation(source: Path | io.BytesIO, name: str, notes: list[str]) -> list[Image.Image]:
    """The frames of a GIF or WebP."""
    with readable(name), Image.open(source) as image:
        count = getattr(image, "n_frames", 1)
        if count == 1:
            raise InputError(
                f"{name} is one image, not a video; give a list of frames, a folder of them, or an "
                "animation"
            )
        if image.width * image.height * count > MOST_PIXELS * 10:
            raise InputError(f"{name} is enormous: {count} frames of {image.size}; make it smaller")
        return [to_rgb(frame.copy(), notes) for frame in ImageSequence.Iterator(image)]


def video_pipeline(folder: Path, name: str, explainer: Explainer) -> VideoPipeline:
    if not is_prepared(folder):
        raise ModelError(
            f"{name} has no preprocessor_config.json: video processors that need torchvision are "
            "not used; prepare the pixels yourself and use whyformer.Explainer(model)"
        )
    processor = load_processor(folder, name)
    config: Any = explainer.model.config
    count = getattr(config, "num_frames", None) or getattr(config, "frames_per_clip", None)
    if not isinstance(count, int):
        raise ModelError(
            f"{name}'s configuration does not say how many frames it reads (num_frames); use "
            "whyformer.Explainer(model)"
        )
    return VideoPipeline(name, explainer, processor, count)
