"""Hugging Face data sets: by name, or from a folder that ``save_to_disk`` wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whyformer.errors import InputError, first_line
from whyformer.evaluation.data.classes import WNID, class_of, imagenet_numbers
from whyformer.evaluation.data.documents import Document
from whyformer.evaluation.data.samples import (
    HUB,
    IMAGENET,
    ImageSample,
    Sample,
    Samples,
    digest,
    optional,
)
from whyformer.files import what_is
from whyformer.models.images import read_image

LABELS = ("label", "labels", "fine_label")
TEXTS = ("text", "sentence", "review", "content")
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
        columns = ", ".join(f"{name} ({_kind(kind)})" for name, kind in self._features.items())
        return InputError(
            f"{self.name} has no column of {what}: expected {' or '.join(names)}, found {columns}"
        )

    def _match(self) -> list[int] | None:
        """The model's class for each of the data's; None where indices are all there is."""
        names, labels = self._names, self._model_labels
        if names is None:
            if _kind(self._features[self._label]) != "string":
                self.notes = ("the data's classes have no names: their indices are the model's",)
            return None
        if all(WNID.fullmatch(name) for name in names):
            return match_classes(names, imagenet_numbers(), HubSamples._same, self.name)
        if labels is not None and _has_names(labels):
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
        images = self._datasets.Image
        found = [name for name, kind in self._features.items() if isinstance(kind, images)]
        named = [name for name in ("image", "img") if name in found] or found
        if not found or (len(found) > 1 and named == found):
            raise self._lacks("images", ("one image column",))
        self._image = named[0]
        self._rows = self._rows.cast_column(self._image, images(decode=False))
        if self._names and is_validation(self._names, len(self._rows)):
            self.benchmark = IMAGENET

    def __getitem__(self, index: int) -> ImageSample:
        row = read_row(self._rows, index)
        stored = row[self._image]
        if stored is None or not (stored["bytes"] or stored["path"]):
            raise InputError("the sample has no image")
        image = read_image(stored["bytes"] or Path(stored["path"]), [])
        return ImageSample(self.keys[index], image, self._class_of(row))


class HubTexts(HubSamples[Document]):
    """Texts with a class each, and no evidence."""

    def __init__(self, data: str, split: str, labels: Sequence[str] | None) -> None:
        super().__init__(data, split, labels)
        texts = [name for name, kind in self._features.items() if _kind(kind).endswith("string")]
        named = [name for name in TEXTS if name in texts and name != self._label]
        if not named:
            raise self._lacks("texts", TEXTS)
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


def read_row(rows: Any, index: int) -> Any:
    try:
        return rows[index]
    except Exception as error:  # damaged tables make pyarrow raise many things
        raise InputError(f"row {index} cannot be read: {first_line(error)}") from error


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


def _kind(feature: Any) -> str:
    return str(getattr(feature, "dtype", None) or type(feature).__name__)


def _has_names(labels: Sequence[str]) -> bool:
    return not all(UNNAMED.fullmatch(label) for label in labels)


def is_validation(names: Sequence[str], rows: int) -> bool:
    """Whether these are ImageNet's classes, and as many images as its validation set has.

    Some of its classes, its training set and later sets of the same classes are other data.
    """
    named = all(WNID.fullmatch(name) for name in names) or _first(names[0]) == "tench"
    return len(names) == 1000 and rows == 50_000 and named


def is_saved(folder: Path) -> bool:
    """Whether ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote the folder."""
    if what_is(folder / "dataset_dict.json"):
        return True
    return all(what_is(folder / name) for name in ("dataset_info.json", "state.json"))


def load(datasets: Any, data: str, split: str) -> Any:
    """The rows of a split: of a saved folder, of other local files, or of the hub."""
    name, _, config = data.removeprefix(HUB).partition("@")
    folder = Path(data.removeprefix(HUB))
    if is_saved(folder):
        return load_saved(datasets, folder, split)
    if not name:
        raise InputError(f"{data}: expected {HUB}OWNER/NAME, or {HUB}OWNER/NAME@CONFIG")
    local = what_is(Path(name)) is not None
    with offline(datasets, not local and not reachable(name)) as cached_only:
        try:
            return datasets.load_dataset(name, config or None, split=split)
        except Exception as error:  # datasets, its downloads and its tables raise many things
            if cached_only:
                raise InputError(
                    f"the data set {name!r} cannot be had: the hub cannot be reached, and it is "
                    "not in the cache; give a folder that save_to_disk wrote elsewhere"
                ) from error
            raise InputError(
                f"the data set {name!r} cannot be read ({first_line(error)}); check --split "
                f"({split}) and the configuration ({HUB}{name}@CONFIG)"
            ) from error


def load_saved(datasets: Any, folder: Path, split: str) -> Any:
    """A folder with one table is taken as it is, whatever its split is called."""
    try:
        found = datasets.load_from_disk(str(folder))
    except Exception as error:
        raise InputError(f"{folder} is empty or damaged: {first_line(error)}") from error
    if not isinstance(found, dict):
        return found
    if split not in found:
        raise InputError(
            f"{folder} has no split {split!r}, only {', '.join(found)}; choose with --split"
        )
    return found[split]


def reachable(name: str) -> bool:
    """Ask the hub once for the data set, without the minutes that ``datasets`` would try for."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        HfApi().dataset_info(name, timeout=10)
    except GatedRepoError as error:
        raise InputError(
            f"the data set {name!r} is gated: accept its terms on the hub and log in"
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"no data set {name!r}: no such folder, and the hub has none of that name, or it is "
            "private"
        ) from error
    except Exception:  # no network, no answer in time, or HF_HUB_OFFLINE
        return False
    return True


@contextmanager
def offline(datasets: Any, wanted: bool) -> Iterator[bool]:
    """Let ``datasets`` look at its cache only."""
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = before or wanted
    try:
        yield before or wanted
    finally:
        datasets.config.HF_HUB_OFFLINE = before
