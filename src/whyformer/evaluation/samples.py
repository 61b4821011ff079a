"""What is evaluated: images with labels and masks, read one at a time."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from PIL import Image

from whyformer.demo.scenes import draw_scene
from whyformer.errors import InputError
from whyformer.files import FOLDER, IMAGE_ENDINGS, what_is
from whyformer.models.images import read_image

SCENES = "scenes"
#: how many embedded scenes are evaluated unless told otherwise
SCENE_COUNT = 40
SCENE_SEED = 3_000_003
INDEX = "index.jsonl"
WNID = re.compile(r"n\d{8}")

Sample = TypeVar("Sample")


@dataclass(frozen=True)
class ImageSample:
    """An image with what is known of it: its class, its foreground, a mask for each class."""

    key: str
    image: Image.Image
    label: int | None = None
    foreground: np.ndarray | None = None
    masks: Mapping[int, np.ndarray] = field(default_factory=dict)


class Samples(ABC, Generic[Sample]):
    """A data set: so many samples, each with a key of its own, read on demand."""

    name: str
    keys: Sequence[str]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def fingerprint(self) -> str:
        """Something else for another choice of samples."""
        return hashlib.sha256("\n".join(self.keys).encode()).hexdigest()[:16]

    @abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Read one sample; an ``InputError`` says what is wrong with it."""


class Scenes(Samples[ImageSample]):
    """Embedded digit scenes with ``digits`` different digits each, and the mask of each."""

    def __init__(self, digits: int, length: int = SCENE_COUNT) -> None:
        self.name, self.digits = f"{SCENES} of {digits}", digits
        self.keys = [f"{digits}-{i:05d}" for i in range(length)]

    def __getitem__(self, index: int) -> ImageSample:
        scene = draw_scene([SCENE_SEED, self.digits, index], self.digits)
        return ImageSample(
            self.keys[index],
            scene.image,
            label=scene.labels[0],
            foreground=np.any(scene.masks, axis=0),
            masks=dict(zip(scene.labels, scene.masks, strict=True)),
        )


class ClassFolders(Samples[ImageSample]):
    """A folder for each class, as torchvision's ``ImageFolder`` has them.

    Folders are named by ImageNet's numbers (n01440764), by index, or by the model's labels.
    """

    def __init__(self, folder: Path, labels: Sequence[str] | None) -> None:
        self.name, self.folder = folder.name, folder
        found = sorted(path for path in folder.glob("*/*") if path.suffix.lower() in IMAGE_ENDINGS)
        self.keys = [str(path.relative_to(folder)) for path in found]
        names = sorted({path.parent.name for path in found})
        self._classes = dict(zip(names, class_indices(names, labels), strict=True))

    def __getitem__(self, index: int) -> ImageSample:
        path = self.folder / self.keys[index]
        return ImageSample(self.keys[index], read_image(path, []), self._classes[path.parent.name])


class IndexedImages(Samples[ImageSample]):
    """A folder with ``index.jsonl``: lines with "image", and "mask" and "label" where known."""

    def __init__(self, folder: Path, labels: Sequence[str] | None) -> None:
        self.name, self.folder, self._labels = folder.name, folder, labels
        lines = (folder / INDEX).read_text(encoding="utf-8").splitlines()
        self._entries = [self._entry(line, i) for i, line in enumerate(lines, 1) if line.strip()]
        self.keys = [entry["image"] for entry in self._entries]

    def _entry(self, line: str, number: int) -> dict[str, Any]:
        try:
            entry = dict(json.loads(line))
            assert isinstance(entry["image"], str)
        except (ValueError, TypeError, KeyError, AssertionError) as error:
            raise InputError(
                f'{self.folder / INDEX}, line {number}: expected an object with "image"'
            ) from error
        return entry

    def __getitem__(self, index: int) -> ImageSample:
        entry = self._entries[index]
        image = read_image(self.folder / entry["image"], [])
        mask = None
        if entry.get("mask") is not None:
            drawn = read_image(self.folder / entry["mask"], []).convert("L")
            if drawn.size != image.size:
                raise InputError(
                    f"{entry['mask']} is {drawn.width} x {drawn.height}, and its image "
                    f"{image.width} x {image.height}"
                )
            mask = two_valued(np.asarray(drawn), entry["mask"])
        return ImageSample(entry["image"], image, self._label(entry.get("label")), mask)

    def _label(self, given: Any) -> int | None:
        if isinstance(given, str):
            return class_indices([given], self._labels)[0]
        if given is not None and type(given) is not int:
            raise InputError(f"label {given!r}: expected a class index or a label of the model")
        return given


def two_valued(drawn: np.ndarray, name: str) -> np.ndarray:
    """A mask is black and white; other values could mean anything."""
    between = ((drawn > 16) & (drawn < 239)).mean()
    if between > 0.05 or (drawn.max() > 0 and drawn.max() <= 127):
        raise InputError(
            f"{name} is no mask of black and white: its values go to {drawn.max()}, expected 0 "
            "and 255"
        )
    return drawn > 127


class Some(Samples[Sample]):
    """Evenly chosen samples of another data set."""

    def __init__(self, samples: Samples[Sample], limit: int) -> None:
        self._samples = samples
        chosen = np.linspace(0, len(samples), min(limit, len(samples)), endpoint=False)
        self._places = [int(place) for place in chosen]
        self.name = f"{samples.name}, {len(self._places)} of {len(samples)}"
        self.keys = [samples.keys[i] for i in self._places]

    def __getitem__(self, index: int) -> Sample:
        return self._samples[self._places[index]]


def open_images(
    data: str | None, digits: int, labels: Sequence[str] | None, limit: int | None = None
) -> Samples[ImageSample]:
    """A data set by its place: a folder, or None for the embedded scenes."""
    if data is None:
        return Scenes(digits, limit or SCENE_COUNT)
    folder = Path(data)
    if what_is(folder) != FOLDER:
        raise InputError(f"no such folder: {data}")
    if what_is(folder / INDEX):
        samples: Samples[ImageSample] = IndexedImages(folder, labels)
    else:
        samples = ClassFolders(folder, labels)
    if not len(samples):
        raise InputError(
            f"{data} holds no samples: expected {INDEX}, or a folder of images for each class"
        )
    return Some(samples, limit) if limit is not None else samples


def class_indices(names: Sequence[str], labels: Sequence[str] | None) -> list[int]:
    """The classes that folders stand for, by ImageNet's number, by index, or by label."""
    if all(WNID.fullmatch(name) for name in names):
        numbers = {wnid: i for i, wnid in enumerate(imagenet_numbers())}
        return [_known(name, numbers) for name in names]
    if all(name.isdecimal() for name in names):
        return [int(name) for name in names]
    known = {label.casefold(): i for i, label in enumerate(labels or [])}
    return [_known(name.casefold(), known) for name in names]


def _known(name: str, classes: Mapping[str, int]) -> int:
    if name not in classes:
        raise InputError(
            f"the folder {name!r} is no class of the model; expected ImageNet's numbers "
            "(n01440764), class indices, or the model's labels"
        )
    return classes[name]


def imagenet_numbers() -> list[str]:
    """The WordNet numbers of ImageNet-1k's classes, in the order of their indices."""
    listed = files("whyformer.evaluation") / "imagenet_wnids.txt"
    return listed.read_text(encoding="ascii").split()
