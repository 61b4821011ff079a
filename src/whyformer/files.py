"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from whyformer.errors import OutputError


def write_whole(path: Path, content: bytes | str) -> None:
    """Write to a temporary neighbour, then rename: a failure leaves what was there before."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    part: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, path)
        part = None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if part is not None:
            Path(part).unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise early where a file could not be written, before the work for it is done."""
    existing = next(parent for parent in path.absolute().parents if parent.exists())
    if not existing.is_dir():
        raise OutputError(f"cannot write {path}: {existing} is not a folder")
    if not os.access(existing, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise OutputError(f"cannot write {path}: permission denied")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
