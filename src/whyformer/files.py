"""Files: what a path is, and writing that leaves a whole file or none."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from whyformer.errors import InputError, OutputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FILE, FOLDER = "file", "folder"
IMAGE_ENDINGS = {
    ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif",
}  # fmt: skip
ANIMATIONS = {".gif", ".webp"}
SOUND_ENDINGS = {".wav", ".flac", ".ogg", ".mp3"}
FILM_ENDINGS = {".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg"}


#: what a text is not
FILE_ENDINGS = IMAGE_ENDINGS | SOUND_ENDINGS | FILM_ENDINGS


def check_no_film(path: Path) -> None:
    """Films are for other programs to take apart."""
    if path.suffix.lower() in FILM_ENDINGS:
        raise InputError(
            f"{path} is a film, which is not taken apart here; give a folder of its frames, or an "
            "animation (.gif, .webp)"
        )


def what_is(path: Path) -> str | None:
    """A file, a folder, or None where nothing of that name can exist."""
    try:
        mode = path.stat().st_mode
    except PermissionError as error:
        raise InputError(f"{path} may not be read: permission denied") from error
    except (OSError, ValueError):
        return None
    return FOLDER if stat.S_ISDIR(mode) else FILE


def write_whole(path: Path, content: bytes | str) -> None:
    with whole_file(path) as file:
        file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write to a temporary file beside it, then rename: a failure leaves the old file as it was."""
    part: str | None = None
    try:
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=".whyformer-", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, target)
        part = None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if part is not None:
            Path(part).unlink(missing_ok=True)


def lock(path: Path) -> IO[bytes]:
    """A file that this process alone holds until it is closed, where the system has locks.

    The lock of a killed process is gone with it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        file = os.fdopen(handle, "ab+", buffering=0)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise OutputError(
                f"{path} is being written by another process: is the same run still going?"
            ) from error
    return file


def check_writable(path: Path) -> None:
    """Raise early where a file could not be written, before the work for it is done."""
    try:
        existing = next(parent for parent in path.absolute().parents if parent.exists())
        if not existing.is_dir():
            raise NotADirectoryError(0, f"{existing} is not a folder")
        if not os.access(existing, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise PermissionError(0, "permission denied")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
