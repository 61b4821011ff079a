"""Images as models read them, and what methods say about them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.code import code_of
from whyformer.engine.outputs import as_output, check_samples
from whyformer.evaluation.cache import Cache
from whyformer.evaluation.samples import ImageSample
from whyformer.evaluation.task import Record, Task
from whyformer.methods import get_method
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline, Recorded


@dataclass(frozen=True)
class Picture:
    """A sample with its image as the model reads it, from 0 to 1, before normalisation."""

    sample: ImageSample
    pixels: Tensor

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.pixels.shape[-2:]
        return height, width


class Answers:
    """What methods say about one picture; the model reads it when the first question needs it."""

    def __init__(self, why: ImagePipeline, pixels: Tensor, preset: str, cache: Cache) -> None:
        self._why, self._pixels, self._preset, self._cache = why, pixels, preset, cache
        self._given = b""
        if cache.folder is not None:
            self._given = str(tuple(pixels.shape)).encode() + pixels.numpy().tobytes()

    @cached_property
    def _recorded(self) -> Recorded:
        return self._why.record_picture(self._pixels)

    @cached_property
    def logits(self) -> np.ndarray:
        return self._cache.remember(
            "logits", self._given, lambda: self._recorded.logits[0].float().cpu().numpy()
        )

    @property
    def predicted(self) -> int:
        return int(self.logits.argmax())

    def maps(
        self, method: str, targets: Sequence[int], size: tuple[int, int]
    ) -> dict[int, np.ndarray]:
        """A map for each target; a class-agnostic method makes one for all of them.

        Methods that reach the pixels are taken there, others are upsampled from the patches.
        """
        chosen = get_method(method)
        wanted = list(dict.fromkeys(targets))
        asked: list[int | None] = [*wanted] if chosen.class_specific else [None]
        found = []
        for target in asked:
            name = f"{method} {code_of(method)} {self._preset} {target}"
            patches = self._cache.remember(name, self._given, partial(self._ask, method, target))
            flat = torch.from_numpy(patches)[None, None]
            full = F.interpolate(flat, size, mode="bilinear", align_corners=False)
            found.append(full[0, 0].double().numpy())
        return dict(
            zip(wanted, found if chosen.class_specific else found * len(wanted), strict=True)
        )

    def _ask(self, method: str, target: int | None) -> np.ndarray:
        quiet = {"progress": False} if "progress" in get_method(method).options else {}
        answer = self._recorded.explain(target, method, self._preset, matrix=False, **quiet)
        pixels = answer.input_relevance
        found = answer.tokens.to_map(answer.relevance) if pixels is None else pixels
        return found[0].float().cpu().numpy()


class ImageTask(Task):
    """A benchmark of image models."""

    kind = "image"

    def prepare(self, why: Pipeline, sample: ImageSample) -> Picture:
        """Images are stretched straight to the model's size, so that masks fit."""
        assert isinstance(why, ImagePipeline)
        return Picture(sample, why.fit(sample.image))

    def measure(
        self, why: Pipeline, prepared: Picture, methods: Sequence[str], cache: Cache
    ) -> Iterator[tuple[str, Record]]:
        assert isinstance(why, ImagePipeline)
        answers = Answers(why, prepared.pixels, self.preset, cache)
        return self.measure_image(why, prepared, answers, methods)

    @abstractmethod
    def measure_image(
        self, why: ImagePipeline, picture: Picture, answers: Answers, methods: Sequence[str]
    ) -> Iterator[tuple[str, Record]]: ...


@torch.no_grad()
def logits_of(why: ImagePipeline, pixels: Tensor) -> Tensor:
    parameter = next(why.model.parameters())
    normal = why.normalise(pixels).to(parameter.device, parameter.dtype)
    return check_samples(as_output(why.model(normal), None), len(pixels)).float().cpu()
