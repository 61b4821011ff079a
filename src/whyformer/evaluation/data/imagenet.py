"""Images in one folder with a list of their classes, as ImageNet's validation images come."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whyformer.errors import InputError, first_line
from whyformer.evaluation.data.classes import WNID, class_indices
from whyformer.evaluation.data.samples import (
    IMAGENET,
    VALIDATION,
    ImageSample,
    Samples,
    digest,
    read_text,
)
from whyformer.files import FILE, IMAGE_ENDINGS, what_is
from whyformer.models.image_files import read_image

KAGGLE = "LOC_val_solution.csv"
CAFFE = "val.txt"
DEVKIT = "ILSVRC2012_validation_ground_truth.txt"
META = "meta.mat"
#: where the devkit's archive puts its files
UNPACKED = Path("ILSVRC2012_devkit_t12", "data")


class ListedImages(Samples[ImageSample]):
    """A flat folder, and a list of classes in it, in its parent or in the unpacked devkit.

    The list is Kaggle's ``LOC_val_solution.csv``, Caffe's ``val.txt`` or another text file with
    lines "NAME CLASS", or the devkit's ``ILSVRC2012_validation_ground_truth.txt`` with
    ``meta.mat``. Every image needs a class; images that only the list knows are left out, and the
    data set's name says so.
    """

    def __init__(self, folder: Path, labels: Sequence[str] | None) -> None:
        self.folder = folder
        self.keys = image_names(folder)
        self._list = find_list(folder, self.keys)
        told = read_list(self._list, self.keys)
        missing = [key for key in self.keys if key not in told]
        if missing:
            raise InputError(
                f"{self._list} tells no class for {len(missing)} of {len(self.keys)} images of "
                f"{folder} (the first: {missing[0]}); add them to the list, or remove the images"
            )
        names = sorted(set(told.values()))
        try:
            classes = dict(zip(names, class_indices(names, labels), strict=True))
        except InputError as error:
            raise InputError(f"{self._list}: {error}") from error
        self._labels = [classes[told[key]] for key in self.keys]
        numbered = all(VALIDATION.fullmatch(Path(key).stem) for key in self.keys)
        if numbered:
            self.benchmark = IMAGENET
            _check_range(self._labels, self._list)
        self.name = folder.name
        if len(told) > len(self.keys):
            self.name += f", {len(self.keys)} of {len(told)}"
            absent = min(told.keys() - set(self.keys))
            self.notes = (
                f"{self._list.name} lists {len(told) - len(self.keys)} images that are not in "
                f"{folder} (the first: {absent})",
            )
        self.stamp = digest(" ".join(map(str, self._labels)))

    def __getitem__(self, index: int) -> ImageSample:
        key = self.keys[index]
        return ImageSample(key, read_image(self.folder / key, []), self._labels[index])


def image_names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.suffix.lower() in IMAGE_ENDINGS)


def find_list(folder: Path, images: Sequence[str]) -> Path:
    """The file that tells the images' classes, by its name or because it begins with an image."""
    parent = folder.absolute().parent
    named = Names(images)
    for place in (folder, parent, parent / UNPACKED):
        for name in (KAGGLE, CAFFE, DEVKIT):
            if what_is(place / name) == FILE:
                return place / name
        others = [path for path in sorted(place.glob("*.txt")) if _begins_with_image(path, named)]
        if len(others) > 1:
            raise InputError(
                f"several lists of classes for {folder}: {', '.join(p.name for p in others)}; "
                f"keep one, or name it {CAFFE}"
            )
        if others:
            return others[0]
    raise InputError(
        f"{folder} holds images without their classes: expected {CAFFE} with lines NAME CLASS, "
        f"{KAGGLE} or {DEVKIT} in it or beside it, index.jsonl, or a folder for each class"
    )


def _begins_with_image(path: Path, named: Names) -> bool:
    try:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            words = file.readline(1000).split()
    except OSError:
        return False
    return len(words) > 1 and named.find(words[0]) is not None


class Names:
    """File names, found with or without their ending and what lies before them."""

    def __init__(self, images: Sequence[str]) -> None:
        self._known = {Path(name).stem: name for name in images} | {name: name for name in images}

    def find(self, given: str) -> str | None:
        name = Path(given).name
        return self._known.get(name, self._known.get(Path(name).stem))


def read_list(path: Path, images: Sequence[str]) -> dict[str, str]:
    """What each image's class is called; also for images that are only listed."""
    if path.name == DEVKIT:
        return read_devkit(path, images)
    pairs = read_kaggle(path) if path.suffix.lower() == ".csv" else read_pairs(path)
    named = Names(images)
    told: dict[str, str] = {}
    for image, name in pairs:
        key = named.find(image) or image
        if key in told:
            raise InputError(f"{path} lists {image!r} twice; expected each image once")
        told[key] = name
    if not told:
        raise InputError(f"{path} is empty: expected a line for each image")
    return told


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Lines "NAME CLASS", as in Caffe's ``val.txt``."""
    pairs = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        words = line.split(maxsplit=1)
        if len(words) == 1:
            raise InputError(f"{path}, line {number}: {line!r}, expected NAME CLASS")
        if words:
            pairs.append((words[0], words[1].strip()))
    counted = [str(i) for i in range(1, len(pairs) + 1)]
    bare = all(Path(name).suffix.lower() not in IMAGE_ENDINGS for name, _ in pairs)
    if len(pairs) > 1 and bare and [name for _, name in pairs] == counted:
        raise InputError(
            f"{path} only counts the images (Kaggle's ImageSets has such a file): expected a class "
            f"after each name; take {KAGGLE}"
        )
    return pairs


def read_kaggle(path: Path) -> list[tuple[str, str]]:
    """``ImageId,PredictionString``: the string is the class and a box, for each box."""
    rows = csv.DictReader(read_text(path).splitlines())
    if not {"ImageId", "PredictionString"} <= set(rows.fieldnames or []):
        raise InputError(f"{path}: expected the header ImageId,PredictionString")
    pairs = []
    for number, row in enumerate(rows, 2):
        words = (row["PredictionString"] or "").split()
        if not words or not WNID.fullmatch(words[0]):
            raise InputError(f"{path}, line {number}: expected an ImageNet number (n01440764)")
        pairs.append((row["ImageId"], words[0]))
    return pairs


def read_devkit(path: Path, images: Sequence[str]) -> dict[str, str]:
    """A number a line, for the images in the order of their names; ``meta.mat`` tells its class.

    Images with ImageNet's own names are found by the number in them, so that some may be absent.
    """
    lines = read_text(path).split()
    numbers = read_meta(path)
    for line, given in enumerate(lines, 1):
        if given not in numbers:
            raise InputError(
                f"{path}, line {line}: {given!r}, expected a number that {META} explains"
            )
    places = [VALIDATION.fullmatch(Path(name).stem) for name in images]
    if all(places):
        there = {int(place[1]): name for place, name in zip(places, images, strict=True) if place}
        return {
            there.get(line, f"ILSVRC2012_val_{line:08d}"): numbers[number]
            for line, number in enumerate(lines, 1)
        }
    if len(lines) != len(images):
        raise InputError(
            f"{path} has {len(lines)} lines for {len(images)} images, whose names do not tell "
            "which line is whose (ILSVRC2012_val_00000001.JPEG would)"
        )
    return {name: numbers[number] for name, number in zip(images, lines, strict=True)}


def read_meta(truth: Path) -> Mapping[str, str]:
    """ImageNet's numbers by the devkit's own, which are in another order than the classes."""
    places = (truth.parent / META, truth.parent / "data" / META)
    path = next((place for place in places if what_is(place) == FILE), None)
    if path is None:
        raise InputError(
            f"{truth} counts the classes in the devkit's own order, which only {META} explains: "
            f"put the devkit's {META} beside it, or give {KAGGLE} or {CAFFE} instead"
        )
    from scipy.io import loadmat

    try:
        synsets: Any = np.atleast_1d(loadmat(path, squeeze_me=True)["synsets"])
        return {str(int(row["ILSVRC2012_ID"])): str(row["WNID"]) for row in synsets}
    except Exception as error:  # scipy raises whatever a damaged file makes it stumble over
        raise InputError(
            f"{path} is not the devkit's: expected synsets with ILSVRC2012_ID and WNID "
            f"({first_line(error)})"
        ) from error


def _check_range(labels: Sequence[int], path: Path) -> None:
    if max(labels) > 999:
        raise InputError(
            f"{path} tells the class {max(labels)}: expected 0 to 999; numbers from 1 to 1000 are "
            "the devkit's own, in another order"
        )
