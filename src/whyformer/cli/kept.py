"""Where the newest record of each input lies: an index on the disk, for there may be millions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock


@dataclass(frozen=True)
class Kept:
    """Where the record of an input begins, which state of the input it is of, and from when."""

    path: Path
    start: int
    state: str
    time: int


class Index:
    """Records by the names of their inputs, in a temporary file that goes with the process.

    One thread asks while another adds. Names and paths are bytes, as the system has them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._table = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._table.execute("PRAGMA journal_mode = OFF")
        self._table.execute(
            "CREATE TABLE kept (name BLOB PRIMARY KEY, path BLOB, start INT, state BLOB, time INT) "
            "WITHOUT ROWID"
        )

    def add(self, name: str, kept: Kept) -> None:
        """Unless there is a newer one."""
        before = self.get(name)
        if before is not None and before.time > kept.time:
            return
        row = (os.fsencode(kept.path), kept.start, os.fsencode(kept.state), kept.time)
        with self._lock:
            self._table.execute(
                "INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, ?)", (os.fsencode(name), *row)
            )

    def get(self, name: str) -> Kept | None:
        asked = "SELECT path, start, state, time FROM kept WHERE name = ?"
        with self._lock:
            found = self._table.execute(asked, (os.fsencode(name),)).fetchone()
        return found and _kept(*found)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[Kept]:
        """In the order of their names."""
        for row in self._table.execute("SELECT path, start, state, time FROM kept ORDER BY name"):
            yield _kept(*row)


def _kept(path: bytes, start: int, state: bytes, time: int) -> Kept:
    return Kept(Path(os.fsdecode(path)), start, os.fsdecode(state), time)
