"""Documents with the passages that people marked as evidence: ERASER's format, and our own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.demo.reviews import reviews
from whyformer.errors import InputError
from whyformer.evaluation.samples import Samples, Some
from whyformer.files import FOLDER, what_is


@dataclass(frozen=True)
class Document:
    """Tokens, the class, and the places of the tokens that are evidence for it."""

    key: str
    tokens: list[str]
    label: int
    evidence: frozenset[int]


class Reviews(Samples[Document]):
    """The embedded reviews."""

    def __init__(self, labels: Sequence[str] | None) -> None:
        self.name = "embedded reviews"
        self._reviews = reviews()
        self._labels = labels
        self.keys = [f"review-{i:02d}" for i in range(len(self._reviews))]

    def __getitem__(self, index: int) -> Document:
        verdict, tokens, evidence = self._reviews[index]
        return Document(self.keys[index], tokens, class_of(verdict, self._labels), evidence)


class Eraser(Samples[Document]):
    """An ERASER directory whose task is to classify single documents: docs/ and SPLIT.jsonl."""

    def __init__(self, folder: Path, split: str, labels: Sequence[str] | None) -> None:
        self.name, self.folder, self._labels = f"{folder.name}, {split}", folder, labels
        lines = folder / f"{split}.jsonl"
        if what_is(lines) is None or what_is(folder / "docs") != FOLDER:
            raise InputError(f"{folder} is no ERASER directory: expected docs/ and {lines.name}")
        text = lines.read_text(encoding="utf-8")
        self._entries = [
            read_entry(line, f"{lines}, line {i}")
            for i, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
        self.keys = [entry["annotation_id"] for entry in self._entries]

    def __getitem__(self, index: int) -> Document:
        entry = self._entries[index]
        spans = [span for group in entry["evidences"] for span in group]
        names = {span["docid"] for span in spans} or {entry["annotation_id"]}
        if len(names) > 1:
            raise InputError(f"its evidence lies in {len(names)} documents; expected one")
        path = self.folder / "docs" / names.pop()
        if what_is(path) is None:
            raise InputError(f"no such file: {path}")
        tokens = path.read_text(encoding="utf-8").split()
        label = class_of(str(entry["classification"]), self._labels)
        return Document(self.keys[index], tokens, label, evidence_of(spans, len(tokens)))


def read_entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = dict(json.loads(line))
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: expected a JSON object") from error
    for key in ("annotation_id", "classification", "evidences"):
        if key not in entry:
            raise InputError(f"{where}: {key!r} is missing")
    return entry


def evidence_of(spans: Sequence[dict[str, Any]], length: int) -> frozenset[int]:
    """The places that spans cover; a span beyond the document is an error."""
    covered: set[int] = set()
    for span in spans:
        start, end = span["start_token"], span["end_token"]
        if not 0 <= start < end <= length:
            raise InputError(
                f"evidence from token {start} to {end} of a document with {length} tokens"
            )
        covered.update(range(start, end))
    return frozenset(covered)


def class_of(name: str, labels: Sequence[str] | None) -> int:
    """The class that a data set's name means: "NEG" is "negative" as well."""
    wanted = name.casefold()
    known = [label.casefold() for label in labels or []]
    found = [i for i, label in enumerate(known) if label == wanted] or [
        i for i, label in enumerate(known) if label.startswith(wanted) or wanted.startswith(label)
    ]
    if len(found) != 1:
        raise InputError(
            f"the data's class {name!r} is {'several' if found else 'none'} of the model's "
            f"({', '.join(labels or ['without names'])})"
        )
    return found[0]


def open_documents(
    data: str | None, split: str, labels: Sequence[str] | None, limit: int | None
) -> Samples[Document]:
    """An ERASER directory, or None for the embedded reviews."""
    samples: Samples[Document] = Reviews(labels)
    if data is not None:
        if what_is(Path(data)) != FOLDER:
            raise InputError(f"no such folder: {data}")
        samples = Eraser(Path(data), split, labels)
    return Some(samples, limit) if limit is not None else samples
