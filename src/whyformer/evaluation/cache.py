"""Answers on disk, so that another benchmark or another run need not ask again."""

from __future__ import annotations

import hashlib
import inspect
import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from whyformer import __version__
from whyformer.files import what_is, write_whole
from whyformer.methods import get_method


class Cache:
    """Arrays by what they follow from; ``scope`` tells models apart. Without a folder: no cache."""

    def __init__(self, folder: Path | None = None, scope: str = "") -> None:
        self.folder, self._scope = folder, f"{__version__} {scope}"

    def remember(self, name: str, given: bytes, make: Callable[[], np.ndarray]) -> np.ndarray:
        if self.folder is None:
            return make()
        digest = hashlib.sha256(f"{self._scope} {name} ".encode() + given).hexdigest()
        path = self.folder / digest[:2] / f"{digest}.npy"
        if what_is(path):
            try:
                return np.load(path, allow_pickle=False)
            except (ValueError, EOFError, OSError):
                pass  # damaged, so made again
        found = make()
        buffer = io.BytesIO()
        np.save(buffer, found)
        write_whole(path, buffer.getvalue())
        return found


def code_of(method: str) -> str:
    """Something else when the method's function was rewritten: its old results are not mixed in."""
    return _digest(get_method(method).function)


@lru_cache
def _digest(function: Callable[..., object]) -> str:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = repr(function)
    return hashlib.sha256(source.encode()).hexdigest()[:8]
