"""A photo before a model's preprocessing cut it, and where a map lies in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from whyformer.errors import InputError
from whyformer.tokens import upsampled


@dataclass(frozen=True)
class Crop:
    """What a model saw of a photo of ``size`` (height, width): top, left, bottom, right."""

    size: tuple[int, int]
    box: tuple[int, int, int, int]

    @property
    def share(self) -> float:
        """Of the photo's area."""
        top, left, bottom, right = self.box
        return (bottom - top) * (right - left) / (self.size[0] * self.size[1])

    def scaled(self, size: tuple[int, int]) -> Crop:
        """The same part of a photo of another size."""
        lengths = zip(self.box, self.size * 2, size * 2, strict=True)
        top, left, bottom, right = (round(end * new / old) for end, old, new in lengths)
        return Crop(size, (top, left, bottom, right))


def over_the_photo(patches: Tensor, crops: Sequence[Crop | None]) -> Tensor:
    """Maps (batch, ..., rows, columns) in the photos' own size; NaN where nothing was seen."""
    known = [crop for crop in crops if crop is not None]
    if len(known) < len(patches):
        raise InputError(
            "it is not known where the map lies in the photo: that needs a model of "
            "whyformer.load whose preprocessing resizes and crops, and nothing else"
        )
    if len({crop.size for crop in known}) > 1:
        raise InputError(
            "the photos have different sizes; ask for one at a time: "
            "explanation[0].image_map(original=True)"
        )
    whole = patches.new_full((*patches.shape[:-2], *known[0].size), float("nan"))
    for sample, crop in enumerate(known):
        top, left, bottom, right = crop.box
        seen = upsampled(patches[sample], (bottom - top, right - left))
        whole[sample, ..., top:bottom, left:right] = seen
    return whole
