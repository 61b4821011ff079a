"""Records in a file, a JSON object a line: appended whole, and read again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from whyformer.errors import OutputError
from whyformer.files import lock


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
            raise self._failure(error) from error
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

    def _failure(self, error: OSError) -> OutputError:
        return OutputError(
            f"cannot write {self.path}: {error.strerror}; what was done is kept: start the "
            "same command again when it can be written"
        )


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every line with where it starts; half a line, which a killed process left, counts as none."""
    start = 0
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield start, line
            start += len(line)
