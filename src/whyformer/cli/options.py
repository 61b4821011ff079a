"""Options that several commands share, and how an input on the command line is read."""

from __future__ import annotations

import argparse
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.errors import InputError
from whyformer.files import what_is

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline
    from whyformer.render.panels import Look

IMAGE_ENDINGS = {
    ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif",
}  # fmt: skip
DEFAULT_MODELS = {"image": "demo-vision", "text": "demo-text"}


@dataclass(frozen=True)
class Given:
    """One input: its name for people, what it is, and what the model reads."""

    name: str
    kind: str
    content: Any


def add_model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "-m",
        "--model",
        help="embedded name, directory, hub id or timm/NAME (default: demo-vision or demo-text)",
    )
    group.add_argument("--weights", metavar="FILE", help="safetensors for a timm model")
    group.add_argument("--device", help="where it runs: cpu, cuda, cuda:1, mps (default: cpu)")
    group.add_argument("--offline", action="store_true", help="never download")
    group.add_argument(
        "--allow-pickle", action="store_true", help="take pickled weights where there are no others"
    )


def add_question_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("question")
    group.add_argument(
        "-t",
        "--target",
        action="append",
        metavar="CLASS",
        help="label or index; several give several maps (default: what the model predicts)",
    )
    group.add_argument(
        "--preset",
        default="stable",
        metavar="NAME",
        help="stable (default), paper (equations as written) or reference (the authors' code)",
    )
    group.add_argument(
        "--pair", metavar="TEXT", help="second text, for models that read sentence pairs"
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--out",
        metavar="PATH",
        help="file ending in .png, .html, .json, .npz, .tex or .svg (default: the terminal)",
    )
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("-q", "--quiet", action="store_true", help="no progress, no remarks")
    group.add_argument("--pieces", action="store_true", help="show word pieces, not words")
    group.add_argument("--patches", action="store_true", help="show patches, not a smooth map")
    group.add_argument(
        "--contour",
        type=_share,
        metavar="LEVEL",
        help="draw a line around what is stronger than LEVEL, from 0 to 1",
    )
    group.add_argument(
        "--opacity", type=_share, default=0.85, help="of the map over the image, 0 to 1"
    )


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def look_of(options: argparse.Namespace) -> Look:
    from whyformer.render.panels import Look

    return Look(opacity=options.opacity, smooth=not options.patches, contour=options.contour)


def load_for(options: argparse.Namespace, kind: str) -> Pipeline:
    """The model that was asked for, or the embedded one for this kind of input."""
    from whyformer.models.loading import load

    name = options.model or DEFAULT_MODELS[kind]
    why = load(
        name,
        weights=options.weights,
        device=options.device,
        allow_pickle=options.allow_pickle,
        offline=options.offline,
    )
    if why.kind != kind:
        raise InputError(f"{name} reads {_plural(why.kind)}, and the input is {_a(kind)}")
    return why


def read_target(options: argparse.Namespace, labels: list[str] | None) -> Any:
    """Labels stay words; a whole number that is no label is an index."""
    targets: list[int | str] = []
    for given in options.target or []:
        is_number = re.fullmatch(r"-?[0-9]{1,99}", given) and given not in (labels or [])
        targets.append(int(given) if is_number else given)
    if not targets:
        return None
    return targets[0] if len(targets) == 1 else targets


def read_input(given: str, options: argparse.Namespace) -> Given:
    """A file, a text, or ``-`` for standard input."""
    if given == "-":
        return _from_stdin(options)
    if not given.strip():
        raise InputError("the text is empty: there is nothing to explain")
    path = Path(given)
    if what_is(path) is not None:
        if path.suffix.lower() in IMAGE_ENDINGS or _starts_like_image(path):
            return _image(given, path, options)
        return Given(given, "text", with_pair(_read_text(path), options))
    if path.suffix.lower() in IMAGE_ENDINGS | {".txt"} and "\n" not in given:
        raise InputError(f"no such file: {given}")
    return Given(shorten(given), "text", with_pair(given, options))


def shorten(text: str, length: int = 48) -> str:
    """The start of a text, to name it by."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3].rstrip() + "..."


def _image(name: str, content: Path | bytes, options: argparse.Namespace) -> Given:
    if options.pair is not None:
        raise InputError("--pair goes with texts, and the input is an image")
    return Given(name, "image", content)


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


def _from_stdin(options: argparse.Namespace) -> Given:
    name = "standard input"
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    if not data.strip():
        raise InputError(f"{name} is empty; pipe an image or a text into it")
    try:
        text = _decode(data, name)
    except InputError as not_text:
        from whyformer.models.images import NotAnImageError, decode

        try:
            decode(io.BytesIO(data), name, [])
        except NotAnImageError:
            raise InputError(
                f"{name} is binary: neither an image that Pillow can read nor UTF-8 text"
            ) from not_text
        return _image(name, data, options)
    return Given(name, "text", with_pair(text, options))


def _decode(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is neither an image nor UTF-8 text") from error
    if "\0" in text:
        raise InputError(f"{name} is binary, not text")
    return text


def with_pair(text: str, options: argparse.Namespace) -> str | tuple[str, str]:
    return text if options.pair is None else (text, options.pair)


def _plural(kind: str) -> str:
    return f"{kind}s"


def _a(kind: str) -> str:
    return "an image" if kind == "image" else "a text"
