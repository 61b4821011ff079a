"""Methods from elsewhere: files of one's own, and packages that bring some."""

from __future__ import annotations

import functools
import hashlib
import sys
import warnings
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from whyformer.errors import InputError, first_line

#: the entry points by which an installed package brings methods; each names a module
GROUP = "whyformer.methods"
PREFIX = "whyformer_own_"


@dataclass(frozen=True)
class Source:
    """A file as it was when it was run."""

    file: Path
    text: str


_SOURCES: dict[str, Source] = {}


def run_file(path: str | Path) -> None:
    """Run a file that registers methods, as a module of its own."""
    file = Path(path).expanduser().resolve()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(
            f"cannot read {path}: {reason}; give a Python file that registers a method"
        ) from error
    name = f"{PREFIX}{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    _SOURCES[name] = Source(file, text)
    try:
        exec(compile(text, str(file), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise InputError(f"{path} failed: {line_of(error, file)}{told(error)}") from error


def source_of(module: str) -> Source | None:
    """The file that a method's module was, where it came from a file of one's own."""
    return _SOURCES.get(module)


def line_of(error: BaseException, file: Path) -> str:
    """The last line of the file that an exception passed through."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: "
    passed = walk_tb(error.__traceback__)
    lines = [line for frame, line in passed if frame.f_code.co_filename == str(file)]
    return f"line {lines[-1]}: " if lines else ""


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


@functools.cache
def import_packages() -> None:
    """Import what installed packages offer; one that fails is told of and left out."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:
            warnings.warn(
                f"the methods of {point.value!r} cannot be used: {told(error)}", stacklevel=3
            )
