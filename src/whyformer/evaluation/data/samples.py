"""What is evaluated: images with labels and masks, read one at a time."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from PIL import Image

from whyformer.data_sets import HUB, is_saved
from whyformer.demo.scenes import draw_scene
from whyformer.errors import InputError
from whyformer.evaluation.data.classes import class_indices
from whyformer.evaluation.data.masks import read_mask
from whyformer.files import FILE, IMAGE_ENDINGS, what_is
from whyformer.models.image_files import read_image

SCENES = "scenes"
#: how many embedded scenes are evaluated unless told otherwise
SCENE_COUNT = 40
SCENE_SEED = 3_000_003
INDEX = "index.jsonl"
IMAGENET = "imagenet"
#: how ImageNet's validation images are called
VALIDATION = re.compile(r"ILSVRC2012_val_(\d{8})")

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
    """A data set: so many samples, each with a key of its own, read on demand.

    ``benchmark``: which of the paper's data sets this is, where that is known ("imagenet",
    "imagenet-segmentation"). ``stamp``: what tells the data set from another one with the same
    keys, such as a digest of its list of labels. ``notes``: what was decided on the way.
    """

    name: str
    keys: Sequence[str]
    benchmark: str | None = None
    stamp: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def fingerprint(self) -> str:
        """Something else for another choice of samples, or for other labels."""
        parts = [*self.keys, self.stamp] if self.stamp else self.keys
        return digest("\n".join(parts))

    @abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Read one sample; an ``InputError`` says what is wrong with it."""


class Drawn(Samples[Sample]):
    """Embedded samples, each drawn by its number; keys begin with ``called``."""

    def __init__(self, name: str, called: str, length: int, draw: Callable[[int], Sample]) -> None:
        self.name, self._draw = name, draw
        self.keys = [f"{called}-{i:05d}" for i in range(length)]

    def __getitem__(self, index: int) -> Sample:
        return self._draw(index)


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
        self.stamp = digest(json.dumps(self._classes))
        if self.keys and all(VALIDATION.search(key) for key in self.keys):
            self.benchmark = IMAGENET

    def __getitem__(self, index: int) -> ImageSample:
        path = self.folder / self.keys[index]
        return ImageSample(self.keys[index], read_image(path, []), self._classes[path.parent.name])


class IndexedImages(Samples[ImageSample]):
    """A folder with ``index.jsonl``: a JSON object a line, one for each image.

    ``"image"``: the image's file, and its key. ``"label"``: a class index, a label of the model or
    an ImageNet number. ``"mask"``: the file of the foreground. ``"masks"``: an object with a mask
    file for each class, which pointing needs: ``{"tabby": "a_cat.png", "208": "a_dog.png"}``; the
    foreground is their union unless "mask" says otherwise. All but "image" may be missing.

    A mask is black and white, or a palette image as PASCAL VOC has them: values that are not 0
    are foreground, and 255, "void", counts as background. A palette that paints nothing but black
    and white is black and white.
    """

    def __init__(self, folder: Path, labels: Sequence[str] | None) -> None:
        self.name, self.folder, self._labels = folder.name, folder, labels
        text = read_text(folder / INDEX)
        lines = enumerate(text.split("\n"), 1)
        self._entries = [self._entry(line, i) for i, line in lines if line.strip()]
        self.keys = unique([entry["image"] for entry in self._entries], folder / INDEX)
        self.stamp = digest(text)

    def _entry(self, line: str, number: int) -> dict[str, Any]:
        where = f"{self.folder / INDEX}, line {number}"
        try:
            entry = dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise InputError(f'{where}: expected an object with "image"') from error
        if not isinstance(entry.get("image"), str):
            raise InputError(f'{where}: expected an object with "image", the name of a file')
        if not isinstance(entry.get("mask"), str | None):
            raise InputError(f'{where}: "mask" is {entry["mask"]!r}, expected the name of a file')
        masks = entry.get("masks") or {}
        if not isinstance(masks, dict) or not all(isinstance(n, str) for n in masks.values()):
            raise InputError(f'{where}: expected "masks" to name a file for each class')
        return entry

    def __getitem__(self, index: int) -> ImageSample:
        entry = self._entries[index]
        image = read_image(self.folder / entry["image"], [])
        masks: dict[int, np.ndarray] = {}
        for name, file in (entry.get("masks") or {}).items():
            asked = self._class(name)
            if asked in masks:
                raise InputError(f"two masks for the class {asked}; expected one, their union")
            masks[asked] = self._mask(file, image)
        foreground = np.any(list(masks.values()), axis=0) if masks else None
        if entry.get("mask") is not None:
            foreground = self._mask(entry["mask"], image)
        return ImageSample(
            entry["image"], image, self._label(entry.get("label")), foreground, masks
        )

    def _mask(self, file: str, image: Image.Image) -> np.ndarray:
        mask = read_mask(self.folder / file)
        height, width = mask.shape
        if (width, height) != image.size:
            raise InputError(
                f"{file} is {width} x {height}, and its image {image.width} x {image.height}"
            )
        return mask

    def _class(self, name: str) -> int:
        found = class_indices([name], self._labels)[0]
        if self._labels is not None and found >= len(self._labels):
            raise InputError(f"a mask for class {found} of a model with {len(self._labels)}")
        return found

    def _label(self, given: Any) -> int | None:
        if isinstance(given, str):
            return class_indices([given], self._labels)[0]
        if given is not None and type(given) is not int:
            raise InputError(f"label {given!r}: expected a class index or a label of the model")
        return given


class Subset(Samples[Sample]):
    """Evenly chosen samples of another data set."""

    def __init__(self, samples: Samples[Sample], limit: int) -> None:
        self._samples = samples
        chosen = np.linspace(0, len(samples), min(limit, len(samples)), endpoint=False)
        self._places = [int(place) for place in chosen]
        self.name = f"{samples.name}, {len(self._places)} of {len(samples)}"
        self.keys = [samples.keys[i] for i in self._places]
        self.benchmark, self.stamp, self.notes = samples.benchmark, samples.stamp, samples.notes

    def __getitem__(self, index: int) -> Sample:
        return self._samples[self._places[index]]


def open_images(
    data: str | None,
    digits: int,
    labels: Sequence[str] | None,
    limit: int | None = None,
    *,
    split: str = "test",
) -> Samples[ImageSample]:
    """A data set by its place, or None for the embedded scenes.

    A folder with ``index.jsonl``, with a folder for each class, with images and a list of their
    classes (ImageNet's validation images), or written by ``save_to_disk``; the file of
    ImageNet-Segmentation; or "datasets:NAME". ``split`` goes with Hugging Face data sets.
    """
    if data is None:
        return Scenes(digits, limit or SCENE_COUNT)
    samples = _at(data, labels, split)
    if not len(samples):
        raise InputError(
            f"{data} holds no samples: expected {INDEX}, a folder of images for each class, or "
            "images with a list of their classes"
        )
    return Subset(samples, limit) if limit is not None else samples


def _at(data: str, labels: Sequence[str] | None, split: str) -> Samples[ImageSample]:
    from whyformer.evaluation.data.gtsegs import Segmented
    from whyformer.evaluation.data.hub_data import HubImages
    from whyformer.evaluation.data.imagenet import ListedImages, image_names

    path = Path(data)
    if data.startswith(HUB) or is_saved(path):
        return HubImages(data, split, labels)
    kind = what_is(path)
    if kind is None:
        raise InputError(f"no such file or folder: {data}")
    if kind == FILE:
        if path.suffix.lower() != ".mat":
            raise InputError(f"{data} is a file; expected a folder, or gtsegs_ijcv.mat")
        return Segmented(path)
    if what_is(path / INDEX):
        return IndexedImages(path, labels)
    folders = ClassFolders(path, labels)
    if not len(folders) and image_names(path):
        return ListedImages(path, labels)
    return folders


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def read_text(path: Path) -> str:
    """A text file as a whole, or one sentence on why it is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is damaged: it is no text in UTF-8") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def unique(keys: list[str], where: Path) -> list[str]:
    """The keys, which results are kept by; each may be there only once."""
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise InputError(f"{where} lists {key!r} twice; expected each sample once")
        seen.add(key)
    return keys
