"""Hugging Face data sets: by name, or from a folder that ``save_to_disk`` wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from whyformer.data_sets import (
    HUB,
    USUAL,
    columns_of,
    described,
    kind_of,
    load,
    optional,
    read_row,
    stored_image,
    usual_of,
)
from whyformer.errors import InputError
from whyformer.evaluation.data.classes import WNID, class_of, imagenet_numbers
from whyformer.evaluation.data.documents import Document
from whyformer.evaluation.data.samples import IMAGENET, ImageSample, Sample, Samples, digest
from whyformer.files import what_is
from whyformer.models.image_files import read_image

LABELS = ("label", "labels", "fine_label")
#: names that transformers gives to classes without names
UNNAMED = re.compile(r"LABEL_\d+")


class HubSamples(Samples[Sample]):
    """A split of a data set, with its column of classes and the model's class for each of them.

    Classes go together by their names. Where the data or the model have no names, the index in
    the data is the index in the model, which ``notes`` says. Names that do not match are refused:
    equal counts would not make them the same classes.
    """

    def __init__(self, data: str, split: str, labels: Sequence[str] | None) -> None:
        datasets = optional("datasets", f"the data set {data}")
        self._rows = load(datasets, data, split)
        self._features = self._rows.features
        place = data.removeprefix(HUB)
        shown = Path(place).name if what_is(Path(place)) else place
        self.name = f"{shown}, {self._rows.split or split}"
        self.keys = [str(i) for i in range(len(self._rows))]
        self._datasets, self._model_labels = datasets, labels
        self._label = self._label_column()
        self._names: list[str] | None = getattr(self._features[self._label], "names", None)
        self._classes = self._match()
        stamped = getattr(self._rows, "_fingerprint", "")
        self.stamp = digest(f"{stamped} {self._names} {self._classes}")

    def _label_column(self) -> str:
        fitting = [name for name, kind in self._features.items() if self._is_label(kind)]
        named = [name for name in LABELS if name in fitting]
        classed = [name for name in fitting if hasattr(self._features[name], "names")]
        if named:
            return named[0]
        if len(classed) == 1:
            return classed[0]
        raise self._lacks("classes", LABELS)

    def _is_label(self, kind: Any) -> bool:
        if isinstance(kind, self._datasets.ClassLabel):
            return True
        dtype = getattr(kind, "dtype", "")
        return isinstance(kind, self._datasets.Value) and ("int" in dtype or dtype == "string")

    def _lacks(self, what: str, names: Sequence[str]) -> InputError:
        expected, found = " or ".join(names), described(self._features)
        return InputError(
            f"{self.name} has no column of {what}: expected {expected}, found {found}"
        )

    def _match(self) -> list[int] | None:
        """The model's class for each of the data's; None where indices are all there is."""
        names, labels = self._names, self._model_labels
        if names is None:
            if kind_of(self._features[self._label]) != "string":
                self.notes = ("the data's classes have no names: their indices are the model's",)
            return None
        if all(WNID.fullmatch(name) for name in names):
            return match_classes(names, imagenet_numbers(), HubSamples._same, self.name)
        if labels is not None and not all(UNNAMED.fullmatch(label) for label in labels):
            return match_classes(names, labels, self._same, self.name)
        if labels is not None and len(labels) != len(names):
            raise InputError(
                f"{self.name} has {len(names)} classes, and the model {len(labels)} without names"
            )
        self.notes = ("the model's classes have no names: the data's indices are theirs",)
        return None

    @staticmethod
    def _same(name: str, labels: Sequence[str]) -> int | None:
        """A last attempt to find a class by its name."""
        return None

    def _class_of(self, row: Any) -> int:
        given = row[self._label]
        if given is None or given == -1:
            raise InputError(f"the sample has no label ({given}); the split may hide them")
        if isinstance(given, str):
            return match_classes([given], self._model_labels or [], self._same, self.name)[0]
        if self._classes is None:
            return int(given)
        if not 0 <= given < len(self._classes):
            raise InputError(f"label {given} of {len(self._classes)} classes")
        return self._classes[given]


class HubImages(HubSamples[ImageSample]):
    """Images with a class each."""

    def __init__(self, data: str, split: str, labels: Sequence[str] | None) -> None:
        super().__init__(data, split, labels)
        found = columns_of(self._features, "image")
        named = usual_of(found, "image") or found
        if len(named) != 1:
            raise self._lacks("images", ("one image column",))
        self._image = named[0]
        self._rows = self._rows.cast_column(self._image, self._datasets.Image(decode=False))
        if self._names and is_validation(self._names, len(self._rows)):
            self.benchmark = IMAGENET

    def __getitem__(self, index: int) -> ImageSample:
        row = read_row(self._rows, index)
        image = read_image(stored_image(row[self._image]), [])
        return ImageSample(self.keys[index], image, self._class_of(row))


class HubTexts(HubSamples[Document]):
    """Texts with a class each, and no evidence."""

    def __init__(self, data: str, split: str, labels: Sequence[str] | None) -> None:
        super().__init__(data, split, labels)
        found = columns_of(self._features, "text")
        named = usual_of([name for name in found if name != self._label], "text")
        if not named:
            raise self._lacks("texts", USUAL["text"])
        self._text = named[0]

    @staticmethod
    def _same(name: str, labels: Sequence[str]) -> int | None:
        try:
            return class_of(name, labels)
        except InputError:
            return None

    def __getitem__(self, index: int) -> Document:
        row = read_row(self._rows, index)
        tokens = (row[self._text] or "").split()
        if not tokens:
            raise InputError("the sample's text is empty")
        return Document(self.keys[index], tokens, self._class_of(row), frozenset())


def match_classes(
    names: Sequence[str],
    labels: Sequence[str],
    same: Callable[[str, Sequence[str]], int | None],
    where: str,
) -> list[int]:
    """The model's class for each name: the same name, or the same first of several synonyms.

    "Tench, Tinca tinca" is "tench". Of two classes that share a name (ImageNet has two cranes) it
    is the one at its own place, where both lists are equally long.
    """
    found: list[int | None] = []
    exact, first = _by(labels, _plain), _by(labels, _first)
    for place, name in enumerate(names):
        same_name, same_first = exact.get(_plain(name), []), first.get(_first(name), [])
        matching = same_name or same_first
        if len(names) == len(labels) and place in same_name + same_first:
            matching = [place]
        found.append(matching[0] if len(matching) == 1 else same(name, labels))
    missing = [name for name, index in zip(names, found, strict=True) if index is None]
    if missing:
        raise InputError(
            f"{where}: {len(missing)} of its classes are none of the model's by name (the first: "
            f"{missing[0]!r}; the model has {_some(labels)}); rename them to the model's labels"
        )
    classes = [index for index in found if index is not None]
    if len(set(classes)) < len(classes):
        raise InputError(f"{where}: two of its classes are the same class of the model by name")
    return classes


def _by(labels: Sequence[str], spelling: Callable[[str], str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for i, label in enumerate(labels):
        places.setdefault(spelling(label), []).append(i)
    return places


def _plain(name: str) -> str:
    return " ".join(re.sub(r"[_\-]", " ", name).casefold().split())


def _first(name: str) -> str:
    return _plain(name.split(",")[0])


def _some(labels: Sequence[str]) -> str:
    shown = ", ".join(repr(label) for label in labels[:3])
    return (shown + (", ..." if len(labels) > 3 else "")) or "no names"


def is_validation(names: Sequence[str], rows: int) -> bool:
    """Whether these are ImageNet's classes, and as many images as its validation set has.

    Some of its classes, its training set and later sets of the same classes are other data.
    """
    named = all(WNID.fullmatch(name) for name in names) or _first(names[0]) == "tench"
    return len(names) == 1000 and rows == 50_000 and named
