"""Semantic segmentation: why this class in that region."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.errors import InputError, TargetError
from whyformer.explanation import Explanation
from whyformer.methods import get_method
from whyformer.models.hugging_face import image_pipeline
from whyformer.models.images import ImagePipeline
from whyformer.models.recorded import Ask, RecordedInput, Show
from whyformer.targets import Contrast, class_index

if TYPE_CHECKING:
    from pathlib import Path

    from whyformer.explainer import Explainer
    from whyformer.recording import Recording

#: left, top, right, bottom in shares of the picture
Box = tuple[float, float, float, float]
EVERYWHERE: Box = (0.0, 0.0, 1.0, 1.0)


def load_regions(folder: Path, name: str, explainer: Explainer) -> RegionsPipeline:
    return RegionsPipeline.like(image_pipeline(folder, name, explainer))


class RegionsPipeline(ImagePipeline):
    """A model that gives every pixel a class, with its own preprocessing.

    ``target`` is a class, by default the one with the most pixels; it is asked about where the
    model sees it. ``region`` is a box (left, top, right, bottom) in shares of the picture, which
    limits where it is asked about.

    Examples:
        >>> why = whyformer.load("./my-segformer")
        >>> why("photo.jpg", region=(0, 0.5, 1, 1)).save("why.png")
        PosixPath('why.png')
    """

    kind, takes = "regions", "image"
    together = False

    def record(self, inputs: Any, *, progress: bool = False) -> RecordedRegions:
        return RecordedRegions(self, *self.record_one(inputs))


class RecordedRegions(RecordedInput):
    """An image whose pixels have classes. A class's probability is its mean over the region."""

    several = False

    def __init__(
        self, pipeline: RegionsPipeline, recording: Recording, notes: list[str], show: Show
    ) -> None:
        if recording.logits.ndim != 4:
            raise InputError(f"{pipeline.name} gives no class to each place of an image")
        #: (classes, height, width)
        self._places = recording.logits[0]
        super().__init__(pipeline, recording, notes, show, logits=self._means(EVERYWHERE))

    def shares(self) -> dict[str, float]:
        """How much of the picture each class has, the largest first."""
        counts = self._places.argmax(0).flatten().bincount(minlength=len(self._places))
        total = counts.sum()
        ranked = self.likeliest(len(counts))
        return {self._label(i): float(counts[i] / total) for i in ranked}

    def likeliest(self, count: int, position: Any = None) -> list[int]:
        """What it sees most; a class that it sees nowhere cannot be asked about."""
        seen = self._places.argmax(0).flatten().bincount(minlength=len(self._places))
        return [i for i in seen.argsort(descending=True)[:count].tolist() if seen[i]]

    def _explain(self, target: Any, ask: Ask, region: Box = EVERYWHERE) -> Explanation:
        rows, columns = self._slices(region)
        if isinstance(target, list | Contrast):
            raise TargetError("a segmentation is asked about one class at a time")
        inside = self._places[:, rows, columns]
        seen = inside.argmax(0)
        index = (
            int(seen.flatten().bincount(minlength=len(inside)).argmax())
            if target is None
            else class_index(target, len(inside), self.pipeline.labels)
        )
        mask = seen == index
        if not bool(mask.any()):
            most = self._label(int(seen.flatten().mode().values))
            raise TargetError(
                f"the model sees {self._label(index)} nowhere in the region; it sees {most} there "
                "most"
            )

        def mean(output: Any) -> Tensor:
            return output.logits[:, index, rows, columns][:, mask].mean(1)

        found = self._shown(ask(self._recording, mean))
        shown = None if region == EVERYWHERE else torch.tensor([[region]])
        return replace(
            found,
            logits=self._means(region),
            target=torch.tensor([index]) if get_method(ask.method).class_specific else None,
            boxes=shown,
            asked=(),
            labels=[self._label(i) for i in range(len(self._places))],
        )

    def _means(self, region: Box) -> Tensor:
        """(1, classes): logarithms of the mean probabilities over a region."""
        rows, columns = self._slices(region)
        return self._places.softmax(0)[:, rows, columns].mean((1, 2)).log().unsqueeze(0)

    def _slices(self, region: Box) -> tuple[slice, slice]:
        left, top, right, bottom = region if len(region) == 4 else (0, 0, 0, 0)
        if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
            raise InputError(
                f"the region {region} is no box; give left, top, right, bottom from 0 to 1"
            )
        height, width = self._places.shape[1:]
        rows = slice(int(top * height), max(int(-(-bottom * height // 1)), int(top * height) + 1))
        columns = slice(int(left * width), max(int(-(-right * width // 1)), int(left * width) + 1))
        return rows, columns

    def _label(self, index: int) -> str:
        labels = self.pipeline.labels
        return labels[index] if labels and index < len(labels) else str(index)
