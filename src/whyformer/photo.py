"""A photo before a model's preprocessing cut it, and where a map lies in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from PIL import Image
from torch import Tensor

from whyformer.errors import InputError
from whyformer.tokens import upsampled

#: photos of which less is cut off count as whole
WHOLE = 0.99
#: a kept photo's most pixels at the longer side, and at that of what was seen
LARGEST, LARGEST_SEEN = 2048, 768


@dataclass(frozen=True)
class Crop:
    """What a model saw of a photo of ``size`` (height, width): top, left, bottom, right.

    ``photo`` is the photo itself, made smaller, where a part of it was not seen.
    """

    size: tuple[int, int]
    box: tuple[int, int, int, int]
    photo: Image.Image | None = field(default=None, repr=False, compare=False)

    @property
    def share(self) -> float:
        """Of the photo's area."""
        top, left, bottom, right = self.box
        return (bottom - top) * (right - left) / (self.size[0] * self.size[1])

    @property
    def shares(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom in shares of the photo."""
        (height, width), (top, left, bottom, right) = self.size, self.box
        return left / width, top / height, right / width, bottom / height

    @property
    def whole(self) -> bool:
        return self.share >= WHOLE

    def keeping(self, photo: Image.Image) -> Crop:
        """The same with the photo, for pictures of what was cut off."""
        if self.whole:
            return self
        top, left, bottom, right = self.box
        seen = max(bottom - top, right - left)
        share = min(1.0, LARGEST_SEEN / seen, LARGEST / max(self.size))
        size = max(1, round(photo.width * share)), max(1, round(photo.height * share))
        return replace(self, photo=photo.resize(size, Image.Resampling.LANCZOS, reducing_gap=3))

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
