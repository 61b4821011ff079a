"""A folder that holds one run: known by its settings, appended to line by line, gone on with.

A file, the mark, says what was asked, the weights among it. Every process appends records, a JSON
object a line, to a file of its own. Whatever ends a process, what it wrote whole is kept, half a
line counts as none, and results of other settings are never mixed in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.errors import InputError, OutputError
from whyformer.files import lock, what_is, write_whole

Record = dict[str, Any]

#: settings whose values mean nothing to people
TOLD = {
    "code": "older code of the method",
    "fingerprint": "other samples: another --limit or --confidence, or data that changed",
    "preparation": "another configuration, label list or preprocessing of the model",
    "protocol": "an older way of measuring",
    "rules": "other rules under the preset's name",
    "weights": "other weights of the model",
}


@dataclass(frozen=True)
class RunFolder:
    """Where a run lies, and what its files are called.

    ``records`` has a place for the process's number. ``within``: the settings are one entry of the
    mark. ``what`` it holds and the ``advice`` stand in sentences that refuse another run.
    """

    path: Path
    mark: str
    records: str = ""
    within: str | None = None
    what: str = "a run"
    advice: str = "choose another folder (--out)"

    @property
    def marked(self) -> bool:
        return what_is(self.path / self.mark) is not None

    def read_mark(self) -> Record:
        """What the mark says; nothing where there is none yet."""
        if not self.marked:
            return {}
        path = self.path / self.mark
        try:
            found = dict(json.loads(path.read_text(encoding="utf-8")))
            dict(found if self.within is None else found[self.within])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged; {self.advice}") from error
        return found

    def write_mark(self, mark: Mapping[str, Any]) -> None:
        text = json.dumps(mark, indent=1, ensure_ascii=False) + "\n"
        write_whole(self.path / self.mark, text)

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse a folder that was marked with other settings."""
        if not self.marked:
            return
        found = self.read_mark()
        before = found if self.within is None else found[self.within]
        for key, value in json.loads(json.dumps(settings)).items():
            if before.get(key) != value:
                told = f"another {key} ({before.get(key)!r}, now {value!r})"
                raise InputError(
                    f"{self.path} holds {self.what} with {TOLD.get(key, told)}; {self.advice}"
                )

    def claim(self, settings: Mapping[str, Any]) -> None:
        """The same run's, or marked from now on."""
        self.check(settings)
        if not self.marked:
            self.write_mark(settings)

    def record_files(self) -> list[Path]:
        return sorted(self.path.glob(self.records.format("*")))

    def read(self, *needed: str, skip_damaged: bool = False) -> Iterator[tuple[Path, int, Record]]:
        """All whole records of all processes, each with its file and where its line starts."""
        for path in self.record_files():
            for number, (start, line) in enumerate(whole_lines(path), 1):
                try:
                    record = json.loads(line)
                    if not isinstance(record, dict) or not set(needed) <= record.keys():
                        raise ValueError
                except ValueError as error:
                    if skip_damaged:
                        continue
                    raise InputError(
                        f"{path}, line {number} is damaged; delete this line, and the same "
                        f"command does it again, or {self.advice}"
                    ) from error
                yield path, start, record

    def append(self, rank: int) -> Appender:
        """To the records of a process, which no other may write meanwhile."""
        return Appender(self.path / self.records.format(rank))


class Appender:
    """Adds whole lines to a file; what a killed process left of a line is cut off first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Appender:
        self._file = lock(self.path)
        self._cut_to(self._whole_lines())
        return self

    def add(self, record: Mapping[str, Any]) -> int:
        """Returns where its line starts."""
        start = self._file.tell()
        try:
            data = json.dumps(record).encode() + b"\n"
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            self._cut_to(start)
            raise OutputError(
                f"cannot write {self.path}: {error.strerror}; what was done is kept: start the "
                "same command again when it can be written"
            ) from error
        return start

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _whole_lines(self) -> int:
        """Where the last whole line ends."""
        end = self._file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0

    def _cut_to(self, size: int) -> None:
        self._file.truncate(size)
        self._file.seek(size)


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every line with where it starts; half a line, which a killed process left, counts as none."""
    start = 0
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield start, line
            start += len(line)
