"""Images as models read them, and what methods say about them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from whyformer.engine.outputs import as_output, check_samples
from whyformer.errors import InputError
from whyformer.evaluation.data.samples import ImageSample
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.answers import TimedAnswers
from whyformer.evaluation.tasks.task import Record, Task
from whyformer.explanation import Explanation
from whyformer.memory import in_parts
from whyformer.methods import get_method
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline
from whyformer.tokens import upsampled


def patches_of(answer: Explanation) -> np.ndarray:
    return answer.tokens.to_map(answer.relevance)[0].float().cpu().numpy()


def map_of(answer: Explanation) -> np.ndarray:
    """Of the pixels where the method reaches them, else of the patches."""
    pixels = answer.input_relevance
    return patches_of(answer) if pixels is None else pixels[0].float().cpu().numpy()


PIXELS = "pixels"
#: how a map is read from an explanation
GRAINS = {PIXELS: map_of, "patches": patches_of}


@dataclass(frozen=True)
class Picture:
    """A sample with its image as the model reads it, from 0 to 1, before normalisation."""

    sample: ImageSample
    pixels: Tensor

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.pixels.shape[-2:]
        return height, width


class Answers(TimedAnswers):
    """What methods say about one picture, each from a recording of its own."""

    def __init__(
        self,
        why: ImagePipeline,
        pixels: Tensor,
        preset: str,
        cache: Cache,
        grain: str = PIXELS,
    ) -> None:
        given = b""
        if cache.folder is not None:
            shown = (*pixels.shape, *(() if grain == PIXELS else (grain,)))
            given = str(shown).encode() + pixels.numpy().tobytes()
        super().__init__(why, preset, cache, given, lambda: logits_of(why, pixels))
        self.why, self._pixels, self._read = why, pixels, GRAINS[grain]

    @property
    def predicted(self) -> int:
        return int(self.logits.argmax())

    def checked(self, label: int | None) -> int:
        if label is None or not 0 <= label < len(self.logits):
            raise InputError(f"label {label} of a model with {len(self.logits)} classes")
        return label

    def maps(
        self, method: str, targets: Sequence[int], size: tuple[int, int]
    ) -> dict[int, np.ndarray]:
        """A map for each target; a class-agnostic method makes one for all of them.

        Maps of patches are upsampled.
        """
        chosen = get_method(method)
        wanted = list(dict.fromkeys(targets))
        asked: list[int | None] = [*wanted] if chosen.class_specific else [None]
        record = cache(lambda: self.why.record_picture(self._pixels, chosen.maps))
        found = [enlarged(self.ask(record, method, target, self._read), size) for target in asked]
        return dict(
            zip(wanted, found if chosen.class_specific else found * len(wanted), strict=True)
        )


@dataclass(frozen=True)
class ImageTask(Task):
    """A benchmark of image models.

    ``grain``: methods that reach the pixels are taken there ("pixels"), or by the sums of their
    patches, as all others are ("patches").
    """

    grain: str = PIXELS

    kind = "image"
    #: straight to the model's size, so that masks fit; else by the model's own preprocessing
    stretched: ClassVar[bool] = True

    def prepare(self, why: Pipeline, sample: ImageSample) -> Picture:
        assert isinstance(why, ImagePipeline)
        return Picture(sample, (why.fit if self.stretched else why.read)(sample.image))

    def measure(
        self, why: Pipeline, prepared: Picture, methods: Sequence[str], cache: Cache
    ) -> Iterator[tuple[str, Record]]:
        assert isinstance(why, ImagePipeline)
        answers = Answers(why, prepared.pixels, self.preset, cache, self.grain)
        for method in methods:
            record = self.measure_one(prepared, answers, method)
            yield method, {**record, **answers.clock.cost(method)}

    @abstractmethod
    def measure_one(self, picture: Picture, answers: Answers, method: str) -> Record:
        """Everything that the figures need of one picture and one method."""


def enlarged(heat: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return upsampled(torch.from_numpy(heat), size).double().numpy()


def bytes_of(image: Image.Image) -> bytes:
    return str(image.size).encode() + image.tobytes()


@torch.no_grad()
def logits_of(why: ImagePipeline, pixels: Tensor) -> Tensor:
    """Of any number of images: as many go through the model together as its memory holds."""
    parameter = next(why.model.parameters())

    def forward(part: Tensor) -> Tensor:
        normal = why.normalise(part).to(parameter.device, parameter.dtype)
        return check_samples(as_output(why.model(normal), None), len(part)).float().cpu()

    return in_parts(forward, pixels, parameter.device)
