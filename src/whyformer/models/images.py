"""Image classifiers: from a file to the pixels that the model reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from whyformer.erasing import units_of
from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.explanation import Explanation
from whyformer.methods import get_method
from whyformer.models.cropping import crop_note, crop_of
from whyformer.models.image_files import ImageInput, read_image
from whyformer.models.pipeline import Pipeline
from whyformer.models.recorded import Ask, RecordedInput, Show
from whyformer.notes import told_by_maps
from whyformer.photo import Crop
from whyformer.recording import Recording
from whyformer.selecting import select

#: an image that is smaller than this share of what the model reads is said to be small
SMALL = 1 / 8

#: how an explanation shows images: ``picture`` and ``crops``
Shown = dict[str, Any]


@dataclass(frozen=True)
class Photo:
    """An image as the model reads it, (1, channels, height, width), and what was seen of it."""

    pixels: Tensor
    notes: tuple[str, ...]
    crop: Crop | None


class ImagePipeline(Pipeline):
    """An image classifier with its own preprocessing.

    ``prepare`` turns RGB images into the model's pixel tensor; ``mean`` and ``std`` undo its
    normalisation, so that maps are shown on the picture as the model saw it.
    """

    kind = takes = "image"
    together = True

    def __init__(
        self,
        name: str,
        explainer: Explainer,
        prepare: Callable[[list[Image.Image]], Tensor],
        mean: Sequence[float],
        std: Sequence[float],
    ) -> None:
        super().__init__(name, explainer)
        self._prepare, self._mean, self._std = prepare, mean, std
        self._crops: dict[tuple[int, int], Crop | None] = {}

    @classmethod
    def like(cls, images: ImagePipeline) -> Self:
        """A model of this kind, whose images are prepared as those of another."""
        return cls(images.name, images.explainer, images._prepare, images._mean, images._std)

    def record(
        self, inputs: ImageInput | Sequence[ImageInput], *, progress: bool = False
    ) -> RecordedInput:
        """Read one image or several, and run the model's forward once for all of them."""
        return self.record_photos([self.photo(source) for source in listed(inputs)])

    def photo(self, source: ImageInput) -> Photo:
        """Read one image, without the model: threads may, while it explains others."""
        notes: list[str] = []
        image = read_image(source, notes)
        crop = self.crop(image.size)
        pixels = self._prepare([image])
        if max(image.size) < SMALL * pixels.shape[-1]:
            notes.append(
                f"the image has {image.width} x {image.height} pixels; it was enlarged to the "
                f"model's {pixels.shape[-1]}, and what the model saw is hardly a picture"
            )
        return Photo(pixels, tuple(notes), crop and crop.keeping(image))

    def record_photos(
        self, photos: Sequence[Photo], *, remember: bool = True, maps: bool = True
    ) -> RecordedImages:
        """Run the forward once for all of them; to be asked once, nothing needs to be kept."""
        pixels = self._stacked(photos)
        recording = Recording(self.explainer, pixels, remember=remember, maps=maps)
        return RecordedImages(self, recording, self._shown(pixels, photos), photos)

    def record_one(self, inputs: Any) -> tuple[Recording, list[str], Show]:
        """One image, for models that are asked about one place of it: no crop is looked for."""
        given = listed(inputs)
        if len(given) != 1:
            raise InputError(f"{len(given)} images were given; {self.name} is asked about one")
        notes: list[str] = []
        pixels = self._prepare([read_image(given[0], notes)])
        shown = {"picture": self.picture(pixels)}
        return self.explainer.record(pixels), notes, partial(showing, shown)

    def pixels(
        self, inputs: ImageInput | Sequence[ImageInput], notes: list[str]
    ) -> tuple[Tensor, Shown]:
        """One image or several as the model reads them, and as people are shown them.

        What the model does not see goes to the notes.
        """
        photos = [self.photo(source) for source in listed(inputs)]
        notes += said_of(photos)
        pixels = self._stacked(photos)
        return pixels, self._shown(pixels, photos)

    def _stacked(self, photos: Sequence[Photo]) -> Tensor:
        if len({photo.pixels.shape for photo in photos}) > 1:
            raise InputError(
                f"{self.name} does not bring images to one size, and these have several; give one "
                "at a time"
            )
        return torch.cat([photo.pixels for photo in photos])

    def _shown(self, pixels: Tensor, photos: Sequence[Photo]) -> Shown:
        return {"picture": self.picture(pixels), "crops": [photo.crop for photo in photos]}

    def crop(self, size: tuple[int, int]) -> Crop | None:
        """What the model sees of a photo of that size (width, height), where that is known."""
        if size not in self._crops:
            self._crops[size] = crop_of(size, self.read)
        return self._crops[size]

    def record_picture(self, picture: Tensor, maps: bool = True) -> RecordedImages:
        """Run the forward for pictures from 0 to 1 that are in the model's size already.

        Without ``maps`` only methods can be asked that read no attention maps.
        """
        recording = Recording(self.explainer, self.normalise(picture), maps=maps)
        return RecordedImages(self, recording, {"picture": picture})

    def read(self, image: Image.Image) -> Tensor:
        """A picture as the model's own preprocessing leaves it, before it normalises.

        (1, channels, height, width), from 0 to 1.
        """
        return self.picture(self._prepare([image]))

    def fit(self, image: Image.Image) -> Tensor:
        """A picture stretched straight to the model's input size, with nothing cut off."""
        height, width = self.input_size
        resized = image.resize((width, height), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(resized)).permute(2, 0, 1).unsqueeze(0) / 255

    @property
    def reads(self) -> dict[str, Any]:
        return {"input_size": list(self.input_size)}

    def _prepared_example(self) -> bytes:
        noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
        prepared = (self._prepare([Image.fromarray(noise)]) * 1000).round().to(torch.int32)
        return prepared.numpy().tobytes() + repr((list(self._mean), list(self._std))).encode()

    def normalise(self, picture: Tensor) -> Tensor:
        return (picture - self._column(self._mean)) / self._column(self._std)

    @cached_property
    def input_size(self) -> tuple[int, int]:
        """Height and width of what the model reads."""
        height, width = self._prepare([Image.new("RGB", (256, 256))]).shape[-2:]
        return height, width

    @property
    def mean_colour(self) -> tuple[int, int, int]:
        """The colour that the model's normalisation makes zero, from 0 to 255."""
        red, green, blue = np.broadcast_to(np.asarray(self._mean, float), 3).tolist()
        return round(255 * red), round(255 * green), round(255 * blue)

    def picture(self, pixels: Tensor) -> Tensor:
        """Pixels as they were before the model's normalisation, from 0 to 1."""
        return (pixels * self._column(self._std) + self._column(self._mean)).clamp(0, 1)

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values).view(-1, 1, 1)


class RecordedImages(RecordedInput):
    """Images that a model has read, ready for questions."""

    def __init__(
        self,
        pipeline: Pipeline,
        recording: Recording,
        shown: Shown,
        photos: Sequence[Photo] = (),
    ) -> None:
        super().__init__(pipeline, recording, said_of(photos), partial(showing, shown))
        self._photos = photos

    @property
    def units(self) -> list[list[int]]:
        return units_of(self._recording)

    def explain_each(
        self, target: Any, method: str, preset: str, **options: Any
    ) -> list[Explanation]:
        """One explanation a photo, which says what it would say of that photo alone."""
        whole, chosen = self._explain(target, Ask(method, preset, options)), get_method(method)
        of_some = [*said_of(self._photos), *told_by_maps([whole.relevance], chosen)]
        of_all = [note for note in whole.notes if note not in of_some]
        found = []
        for i, photo in enumerate(self._photos):
            one = select(whole, i)
            notes = (*said_of([photo]), *of_all, *told_by_maps([one.relevance], chosen))
            found.append(replace(one, notes=notes))
        return found


def showing(shown: Shown, explanation: Explanation) -> Explanation:
    """The explanation with its images as people are shown them."""
    return explanation.showing(explanation.tokens.name, **shown)


def said_of(photos: Sequence[Photo]) -> list[str]:
    """What was decided when they were read, and what of them the model does not see."""
    read = [note for photo in photos for note in photo.notes]
    return read + crop_note([photo.crop for photo in photos])


def listed(inputs: ImageInput | Sequence[ImageInput]) -> list[Any]:
    given: list[Any] = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    if not given:
        raise InputError("the list of images is empty; give at least one")
    return given
