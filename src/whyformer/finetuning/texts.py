"""What is learnt from: texts and the names of their classes, from ERASER directories and TSVs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whyformer.errors import InputError
from whyformer.evaluation.data.documents import Eraser, read_tsv
from whyformer.files import FILE, FOLDER, what_is


@dataclass(frozen=True)
class Part:
    """Texts and the names of their classes."""

    name: str
    texts: list[str]
    labels: list[str]

    def __getitem__(self, places: Sequence[int]) -> Part:
        texts, labels = [self.texts[i] for i in places], [self.labels[i] for i in places]
        return Part(self.name, texts, labels)


@dataclass(frozen=True)
class Data:
    """What is learnt from, what chooses the best epoch, and what is measured in the end."""

    train: Part
    validation: Part
    test: Part | None
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, Part]:
        parts = {"train": self.train, "validation": self.validation}
        return parts if self.test is None else {**parts, "test": self.test}

    @property
    def fingerprint(self) -> str:
        """Something else for other texts or classes."""
        content = [[part.texts, part.labels] for part in self.parts.values()]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    @property
    def labels(self) -> list[str]:
        """The classes, sorted; numbers by their value."""
        found = set(self.train.labels)
        numbers = all(label.isdecimal() for label in found)
        return sorted(found, key=(lambda label: (int(label), label)) if numbers else None)


def read_data(place: Path, limit: int | None, seed: int) -> Data:
    kind = what_is(place)
    if kind is None:
        raise InputError(f"no such file or folder: {place}")
    if kind == FOLDER and what_is(place / "train.jsonl"):
        test = read_eraser(place, "test", limit) if what_is(place / "test.jsonl") else None
        data = Data(read_eraser(place, "train", limit), read_eraser(place, "val", limit), test)
    elif kind == FILE or what_is(place / "train.tsv"):
        data = read_tsvs(place, limit, seed)
    else:
        raise InputError(
            f"{place} holds neither train.jsonl (an ERASER directory) nor train.tsv (lines of "
            "sentence TAB label)"
        )
    check_classes(data)
    return data


def read_tsvs(place: Path, limit: int | None, seed: int) -> Data:
    """train.tsv, dev.tsv or val.tsv, and test.tsv of a folder, or a file for all."""
    if what_is(place) == FILE:
        whole, others = place, {}
    else:
        named = {"dev": place / "dev.tsv", "val": place / "val.tsv", "test": place / "test.tsv"}
        others = {name: path for name, path in named.items() if what_is(path)}
        whole = place / "train.tsv"
    train = read_part(whole, limit)
    test = read_part(others["test"], limit) if "test" in others else None
    held_out = others.get("dev", others.get("val"))
    if held_out is not None:
        return Data(train, read_part(held_out, limit), test)
    order = [int(i) for i in np.random.default_rng(seed).permutation(len(train.texts))]
    count = max(1, len(order) // 10)
    note = f"{count} of {len(order)} lines of {whole.name} are held out for validation"
    return Data(train[sorted(order[count:])], train[sorted(order[:count])], test, (note,))


def read_part(path: Path, limit: int | None) -> Part:
    _, texts, labels = zip(*read_tsv(path), strict=True)
    return Part(path.name, list(texts), list(labels))[evenly(labels, limit)]


def read_eraser(folder: Path, split: str, limit: int | None) -> Part:
    """The documents of SPLIT.jsonl with their classes; the evidence is not looked at."""
    path = folder / f"{split}.jsonl"
    samples = Eraser(folder, split)
    if not len(samples):
        raise InputError(f"{path} is empty; expected a document a line")
    chosen, texts = evenly(samples.classes, limit), []
    for i in chosen:
        try:
            texts.append(" ".join(samples[i].tokens))
        except InputError as error:
            raise InputError(f"{path}, {samples.keys[i]}: {error}") from error
    return Part(path.name, texts, [samples.classes[i] for i in chosen])


def evenly(labels: Sequence[str], limit: int | None) -> list[int]:
    """Evenly chosen places, each class by itself: every second of two that alternate is one."""
    by_class = sorted(range(len(labels)), key=labels.__getitem__)
    chosen = np.linspace(0, len(labels), min(limit or len(labels), len(labels)), endpoint=False)
    return sorted(by_class[int(place)] for place in chosen)


def check_classes(data: Data) -> None:
    known = data.labels
    if len(known) < 2:
        raise InputError(
            f"{data.train.name} has only the class {known[0]!r} in {len(data.train.texts)} texts "
            "to learn from, without those that are held out; expected two or more classes"
        )
    for part in data.parts.values():
        for label in part.labels:
            if label not in known:
                raise InputError(
                    f"{part.name} has the class {label!r}, which {data.train.name} has not "
                    f"({', '.join(known[:12])}); mend the label, or leave the line out"
                )
