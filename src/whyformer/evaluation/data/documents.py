"""Documents, and the passages that people marked as evidence: ERASER's format, and our own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.data_sets import HUB, is_saved
from whyformer.demo.reviews import reviews
from whyformer.errors import InputError
from whyformer.evaluation.data.classes import class_of
from whyformer.evaluation.data.samples import Samples, Subset, digest, read_text, unique
from whyformer.files import FILE, FOLDER, what_is

#: how a column of classes may be called
HEADER = {"label", "labels", "class", "target", "sentiment"}


@dataclass(frozen=True)
class Document:
    """Tokens, the class, and the places of the tokens that are evidence for it.

    ``query``: what is asked of the document, where the class is the answer to it. ``docid``: the
    document's own name, where it differs from the sample's.
    """

    key: str
    tokens: list[str]
    label: int
    evidence: frozenset[int]
    query: str | None = None
    docid: str | None = None


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
    """An ERASER directory whose task is to classify one document: docs/ and SPLIT.jsonl.

    Movies has documents alone; BoolQ, MultiRC and FEVER ask a query of each. A query that all
    entries share names the task and is left out. Samples with several documents (e-SNLI, some of
    FEVER) are refused one by one. ``classes`` are the samples' as they are written; they are found
    among ``labels``, the model's, or by default among themselves.
    """

    def __init__(self, folder: Path, split: str, labels: Sequence[str] | None = ()) -> None:
        self.name, self.folder = f"{folder.name}, {split}", folder
        lines = folder / f"{split}.jsonl"
        if what_is(lines) is None or what_is(folder / "docs") != FOLDER:
            raise InputError(
                f"{folder} is no ERASER directory: expected docs/ and {lines.name}{_splits(folder)}"
            )
        text = read_text(lines)
        self._entries = [
            read_entry(line, f"{lines}, line {i}")
            for i, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
        self.keys = unique([str(entry["annotation_id"]) for entry in self._entries], lines)
        self.classes = [str(entry["classification"]) for entry in self._entries]
        self._labels = sorted(set(self.classes)) if labels == () else labels
        self.stamp = digest(text)
        queries = {str(entry.get("query") or "") for entry in self._entries}
        self._asks = len(queries) > 1 or len(self._entries) == 1

    def __getitem__(self, index: int) -> Document:
        entry = self._entries[index]
        spans = spans_of(entry["evidences"])
        name = document_of(entry, spans)
        path = self.folder / "docs" / name
        if what_is(path) != FILE:
            raise InputError(f"no such file: {path}")
        tokens = read_text(path).split()
        if not tokens:
            raise InputError(f"{path} is empty: expected a document")
        label = class_of(self.classes[index], self._labels)
        evidence = evidence_of(spans, len(tokens))
        query = str(entry.get("query") or "").strip() if self._asks else ""
        key = self.keys[index]
        return Document(
            key, tokens, label, evidence, query or None, docid=name if name != key else None
        )


def _splits(folder: Path) -> str:
    found = sorted(path.stem for path in folder.glob("*.jsonl"))
    return f"; it has the splits {', '.join(found)}" if found else ""


def read_entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = dict(json.loads(line))
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: expected a JSON object") from error
    for key in ("annotation_id", "classification", "evidences"):
        if key not in entry:
            raise InputError(f"{where}: {key!r} is missing")
    return entry


def spans_of(evidences: Any) -> list[dict[str, Any]]:
    """All spans of a sample; its groups, any of which would do, count together."""
    groups = evidences if isinstance(evidences, list) else [evidences]
    if not all(isinstance(group, list) for group in groups):
        raise InputError("its evidences are no list of lists of spans")
    spans = [span for group in groups for span in group]
    for span in spans:
        missing = [
            key
            for key in ("docid", "start_token", "end_token")
            if not isinstance(span, dict) or key not in span
        ]
        if missing:
            raise InputError(f"an evidence span lacks {', '.join(missing)}: {span!r}")
    return spans


def document_of(entry: dict[str, Any], spans: Sequence[dict[str, Any]]) -> str:
    """The one document that a sample reads; without any named it is the sample's own."""
    listed = entry.get("docids") or []
    if not isinstance(listed, list):
        raise InputError(f"its docids are {listed!r}, expected a list of names")
    names = {str(span["docid"]) for span in spans}.union(map(str, listed))
    if len(names) > 1:
        raise InputError(f"it reads {len(names)} documents, or its evidence does; expected one")
    return names.pop() if names else str(entry["annotation_id"])


def evidence_of(spans: Sequence[dict[str, Any]], length: int) -> frozenset[int]:
    """The places that spans cover; beyond the document is an error, an empty span is none."""
    covered: set[int] = set()
    for span in spans:
        start, end = span["start_token"], span["end_token"]
        if type(start) is not int or type(end) is not int:
            raise InputError(
                f"evidence from token {start!r} to {end!r}: expected two whole numbers"
            )
        if not 0 <= start <= end <= length:
            raise InputError(
                f"evidence from token {start} to {end} of a document with {length} tokens"
            )
        covered.update(range(start, end))
    return frozenset(covered)


class Lines(Samples[Document]):
    """A TSV file: lines of sentence TAB label, the model's own or an index, and no evidence."""

    def __init__(self, path: Path, labels: Sequence[str] | None) -> None:
        self.name, self._labels = path.name, labels
        self._rows = read_tsv(path)
        self.keys = [f"line-{number:05d}" for number, _, _ in self._rows]
        self.stamp = digest(repr(self._rows))

    def __getitem__(self, index: int) -> Document:
        _, text, name = self._rows[index]
        tokens = text.split()
        if name.isdecimal() and name not in (self._labels or []):
            return Document(self.keys[index], tokens, int(name), frozenset())
        return Document(self.keys[index], tokens, class_of(name, self._labels), frozenset())


def read_tsv(path: Path) -> list[tuple[int, str, str]]:
    """The number, sentence and label of every line that is not blank.

    A first line that names the columns is left out.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text; expected lines of sentence TAB label"
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    lines = [(i, line) for i, line in enumerate(content.split("\n"), 1) if line.strip()]
    if lines and lines[0][1].split("\t")[-1].strip().casefold() in HEADER:
        del lines[0]
    if not lines:
        raise InputError(f"{path} is empty; expected lines of sentence TAB label")
    return [(i, *read_row(line, f"{path}, line {i}")) for i, line in lines]


def read_row(line: str, where: str) -> tuple[str, str]:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != 2:
        raise InputError(
            f"{where}: {len(cells) - 1 or 'no'} tab{'s' * (len(cells) > 2)}; expected sentence TAB "
            "label"
        )
    if not all(cells):
        raise InputError(f"{where}: the {'label' if cells[0] else 'sentence'} is empty")
    return cells[0], cells[1]


def open_documents(
    data: str | None, split: str, labels: Sequence[str] | None, limit: int | None
) -> Samples[Document]:
    """A data set by its place, or None for the embedded reviews.

    An ERASER directory, a TSV file, a folder with SPLIT.tsv or written by ``save_to_disk``, or
    "datasets:NAME".
    """
    samples = Reviews(labels) if data is None else _at(data, split, labels)
    if not len(samples):
        raise InputError(f"{samples.name} holds no samples")
    return Subset(samples, limit) if limit is not None else samples


def _at(data: str, split: str, labels: Sequence[str] | None) -> Samples[Document]:
    from whyformer.evaluation.data.hub_data import HubTexts

    path = Path(data)
    if data.startswith(HUB) or is_saved(path):
        return HubTexts(data, split, labels)
    if what_is(path) == FILE:
        return Lines(path, labels)
    if what_is(path) != FOLDER:
        raise InputError(f"no such file or folder: {data}")
    if what_is(path / f"{split}.tsv") == FILE:
        return Lines(path / f"{split}.tsv", labels)
    return Eraser(path, split, labels)
