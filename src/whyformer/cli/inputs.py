"""What an input on the command line is: an image, a text, a sound, a file of one, or a pipe."""

from __future__ import annotations

import argparse
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.errors import InputError, TargetError
from whyformer.files import (
    FILE_ENDINGS,
    IMAGE_ENDINGS,
    SOUND_ENDINGS,
    check_no_film,
    what_is,
)
from whyformer.words import shorten

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline

ADDRESS = re.compile(r"(https?|ftp|s3)://\S+$")


@dataclass(frozen=True)
class CliInput:
    """One input: its name, what it is, and what the model reads.

    ``title`` is its name in pages and files, which need not tell where it lies.
    """

    name: str
    kind: str
    content: Any
    title: str


def read_input(given: str, options: argparse.Namespace) -> CliInput:
    """A file, a text, or ``-`` for standard input."""
    if given == "-":
        return _from_stdin(options)
    if not given.strip():
        raise InputError("the text is empty: there is nothing to explain")
    path = Path(given)
    if what_is(path) is not None:
        check_no_film(path)
        if path.suffix.lower() in SOUND_ENDINGS:
            return _without_pair(given, "sound", path, options)
        if path.suffix.lower() in IMAGE_ENDINGS or _starts_like_image(path):
            return _without_pair(given, "image", path, options)
        return CliInput(given, "text", with_pair(_read_text(path), options), path.name)
    if ADDRESS.match(given):
        raise InputError(
            f"{given} is an address on the internet, and no input is downloaded; save it as a "
            "file and give that"
        )
    if path.suffix.lower() in FILE_ENDINGS | {".txt"} and "\n" not in given:
        raise InputError(f"no such file: {given}")
    return CliInput(shorten(given), "text", with_pair(given, options), shorten(given))


def held_input(name: str, content: str | bytes, options: argparse.Namespace) -> CliInput:
    """A text, or an image's file, that is in memory already."""
    if isinstance(content, bytes):
        return _without_pair(name, "image", content, options)
    return CliInput(name, "text", with_pair(content, options), name)


def _without_pair(
    name: str, kind: str, content: Path | bytes, options: argparse.Namespace
) -> CliInput:
    if options.pair is not None:
        raise InputError(f"--pair goes with texts, and the input is {a(kind)}")
    return CliInput(name, kind, content, Path(name).name)


def a(kind: str) -> str:
    return f"an {kind}" if kind == "image" else f"a {kind}"


def _starts_like_image(path: Path) -> bool:
    from PIL import Image

    if not path.is_file():
        return False
    try:
        with Image.open(path):
            return True
    except Image.DecompressionBombError:
        return True
    except Exception:
        return False


def _read_text(path: Path) -> str:
    try:
        return _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _from_stdin(options: argparse.Namespace) -> CliInput:
    name = "standard input"
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    if not data.strip():
        raise InputError(f"{name} is empty; pipe an image, a text or a sound into it")
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _without_pair(name, "sound", data, options)
    try:
        text = _decode(data, name)
    except InputError as not_text:
        from whyformer.models.image_files import NotAnImageError, decode

        try:
            decode(io.BytesIO(data), name, [])
        except NotAnImageError:
            raise InputError(
                f"{name} is binary: neither an image that Pillow can read nor UTF-8 text"
            ) from not_text
        return _without_pair(name, "image", data, options)
    return CliInput(name, "text", with_pair(text, options), name)


def _decode(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is neither an image nor UTF-8 text") from error
    if "\0" in text:
        raise InputError(f"{name} is binary, not text")
    return text


def beside(why: Pipeline, options: argparse.Namespace) -> dict[str, Any]:
    """What else the model reads beside its input, by its name in Python."""
    given: dict[str, Any] = {}
    if options.text is not None:
        given["text"] = options.text
    if options.similar_to is not None:
        other = read_input(options.similar_to, argparse.Namespace(pair=None))
        if other.kind != why.takes:
            raise TargetError(
                f"--similar-to is of kind {other.kind!r}, and {why.name} reads {why.takes}s"
            )
        given["similar_to"] = other.content
    for name in given:
        if name not in why.beside:
            raise TargetError(f"--{name.replace('_', '-')} does not go with {why.name}")
    why.check_beside(given)
    return given


def with_pair(text: str, options: argparse.Namespace) -> str | tuple[str, str]:
    return text if options.pair is None else (text, options.pair)
