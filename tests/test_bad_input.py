"""Every mistake gets one clear sentence on stderr, exit code 2, and nothing on stdout."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import whyformer.render.saving  # noqa: F401  before nobody tries to
from whyformer import InputError
from whyformer.cli import main
from whyformer.models.catalogue import EMBEDDED
from whyformer.models.image_files import read_image

Refused = Callable[..., str]


def png(width: int = 60, height: int = 50) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def bomb() -> bytes:
    """A few bytes that promise 3600 million pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + check

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(99)))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a bit of everything, to work in."""
    files = {
        "good.png": png(),
        "noise.png": b"\x01\x02\x03 no image",
        "cut.png": png()[:500],
        "cut.jpg": b"\xff\xd8\xff\xe0\x00\x10JFIF",
        "bomb.png": bomb(),
        "zero.png": b"",
        "zero.txt": b"",
        "blank.txt": b" \n\t\n",
        "latin.txt": "caf\xe9 film".encode("latin-1"),
        "binary.bin": bytes(range(256)),
        "wide.txt": "film".encode("utf-16"),
        "good.txt": b"a good film",
        "film.mp4": b"\0\0\0\x18ftypmp42",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], here: Path) -> Refused:
    """Run a command that must fail properly; returns the sentence."""

    def command(*arguments: object) -> str:
        before = sorted(os.listdir(here))
        errors = complaint(capsys, *arguments)
        assert sorted(os.listdir(here)) == before
        return errors

    return command


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    output, errors = capsys.readouterr()
    assert (code, output) == (2, "")
    assert errors.startswith("whyformer: ")
    assert errors.count("\n") == 1, errors
    assert len(errors) < 600
    return errors


IMAGES = {
    "none.png": "no such file: none.png",
    "none.JPEG": "no such file: none.JPEG",
    "folder/none.webp": "no such file: folder/none.webp",
    "none.txt": "no such file: none.txt",
    "noise.png": "noise.png is not an image",
    "cut.png": "cut.png is truncated or damaged",
    "cut.jpg": "cut.jpg",
    "bomb.png": "bomb.png is enormous",
    "zero.png": "zero.png is not an image",
    "film.mp4": "film.mp4 is a film, which is not taken apart here; give a folder of its frames",
    "none.mov": "no such file: none.mov",
    "folder": "folder holds no images",
}
TEXTS = {
    "": "empty",
    " ": "empty",
    "\n\t": "empty",
    "zero.txt": "empty",
    "blank.txt": "empty",
    "latin.txt": "neither an image nor UTF-8 text",
    "binary.bin": "binary.bin",
    "wide.txt": "wide.txt",
    "\u200b": "content",
    "caf\udce9 film": "UTF-8",
}


@pytest.mark.parametrize(("given", "said"), [*IMAGES.items(), *TEXTS.items()])
def test_an_input_that_cannot_be(refused: Refused, given: str, said: str) -> None:
    assert said in refused("explain", given)


@pytest.mark.parametrize("given", [*IMAGES, *TEXTS])
def test_the_same_of_compare(refused: Refused, given: str) -> None:
    refused("compare", given, "--method", "rollout")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "standard input is empty"),
        (b" \n ", "standard input is empty"),
        (bytes(range(256)), "standard input is binary"),
        (b"\0\0\0\0", "standard input is binary"),
        (png()[:500], "truncated"),
        (bomb(), "enormous"),
    ],
    ids=["empty", "blank", "binary", "zeros", "cut", "bomb"],
)
def test_standard_input(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, data: bytes, said: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert said in refused("explain", "-")


def test_no_standard_input(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a service that closes it."""
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input" in refused("explain", "-")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "demo-visoin"], "did you mean 'demo-vision'"),
        (["--model", "owner/name"], "demo-vision, demo-text"),
        (["--model", "owner/name", "--offline"], "offline was asked for"),
        (["--model", "my models/vit"], "no model"),
        (["--model", "./none"], "no such directory"),
        (["--model", "~no-such-user/vit"], "no model"),
        (["--model", "folder"], "has no config.json"),
        (["--model", "good.png"], "is a file"),
        (["--model", "timm/none"], "timm"),
        (["--model", "demo-text"], "demo-text reads texts, and the input is an image"),
        (["--weights", "w.safetensors"], "weights"),
        (["--device", "nosuch"], "nosuch"),
        (["--device", "cuda:99"], "cuda:99"),
        (["--method", "transformer_atribution"], "did you mean 'transformer_attribution'"),
        (["--method", "zzz"], "'rollout'"),
        (["--method", "rollout", "--target", "3"], "same map for every class"),
        (["--preset", "stabel"], "did you mean 'stable'"),
        (["--target", "cat"], "no label 'cat'"),
        (["--target", "10"], "choose from 0 to 9"),
        (["--target", "-11"], "classes are counted from 0"),
        (["--target", "3", "--target", "99"], "choose from 0 to 9"),
        (["--target", "99999999999999999999"], "choose from 0 to 9"),
        (["--target", "²"], "²"),
        (["--target=--5"], "--5"),
        (["--target", ""], "no label ''"),
        (["--pair", "a text"], "pair"),
        (["--out", "results"], "results is a folder"),
        (["--out", "results/"], "is a folder"),
        (["--out", "."], "is a folder"),
        (["--out", "why.jpeg"], "'.jpeg'"),
        (["--out", "why"], "no ending"),
        (["--out", "why.pngg"], "known: .png, "),
        (["--out", ""], "--out is empty"),
        (["--format", "bmp", "--out", "out"], "--format is for many inputs"),
        (["--pieces"], "--pieces goes with texts, and the input is an image"),
        (["--target=-5"], "class -5: classes are counted from 0"),
        (["--threads", "0"], "0 is less than 1"),
        (["--out", "good.txt/why.png"], "is not a folder"),
        (["--out", "x" * 300 + ".png"], "cannot write"),
        (["--out", "good.png"], "good.png"),
    ],
)
def test_an_option_that_cannot_be(refused: Refused, options: list[str], said: str) -> None:
    assert said in refused("explain", "good.png", *options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "positiv"], "did you mean 'positive'"),
        (["--model", "demo-vision"], "demo-vision reads images, and the input is a text"),
        (["--pair", " "], "empty"),
        (["--contour", "0.5"], "--contour goes with images"),
        (["--patches"], "--patches goes with images"),
    ],
)
def test_options_of_a_text(refused: Refused, options: list[str], said: str) -> None:
    assert said in refused("explain", "a good film", *options)


def test_a_text_without_quotation_marks(refused: Refused) -> None:
    assert "quotation marks" in refused("explain", "a", "joyless", "film")
    assert "none.png" in refused("explain", "good.png", "none.png")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "why.png"], "go into a folder"),
        (["--out", "why.tex"], "go into a folder"),
        (["--out", "good.txt"], "good.txt"),
        (["--out", "good.txt/maps"], "good.txt"),
        (["--out", "maps", "--format", "jpeg"], "'.jpeg'"),
        (["--out", "maps", "--format", ""], "ending"),
        (["--out", "maps", "--preset", "stabel"], "did you mean 'stable'"),
        (["--out", "maps", "--model", "demo-visoin"], "did you mean 'demo-vision'"),
    ],
)
def test_options_of_many_inputs(
    refused: Refused, here: Path, options: list[str], said: str
) -> None:
    for i in range(2):
        (here / "folder" / f"{i}.png").write_bytes(png())
    assert said in refused("explain", "folder", "--quiet", *options)


@pytest.mark.parametrize(
    ("given", "said"),
    [("good.png", "is an image"), ("none.txt", "no such file"), ("blank.txt", "no lines")],
)
def test_lines_that_cannot_be(refused: Refused, given: str, said: str) -> None:
    assert said in refused("explain", "--lines", given)


@pytest.fixture
def model(here: Path) -> Path:
    """A copy of a model to spoil."""
    return Path(shutil.copytree(EMBEDDED["demo-text"].path, here / "model"))


def test_a_directory_without_weights(refused: Refused, model: Path) -> None:
    (model / "model.safetensors").unlink()
    assert "model holds no weights" in refused("explain", "a film", "--model", "model")


def test_pickled_weights_only(refused: Refused, model: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    assert "--allow-pickle" in refused("explain", "a film", "--model", "model")
    refused("explain", "a film", "--model", "model", "--allow-pickle")


@pytest.mark.parametrize(
    ("labels", "target", "said"),
    [
        (
            ["crane", "crane"],
            "crane",
            "names several classes: 0 'crane', 1 'crane'; give the index",
        ),
        (["Crane, bird", "crane, machine"], "crane", "names several classes: 0 'Crane, bird', 1"),
        (["crane", "crow"], "crwo", "did you mean 'crow'"),
    ],
)
def test_a_class_name_that_fits_several_or_none(
    refused: Refused, model: Path, labels: list[str], target: str, said: str
) -> None:
    config = json.loads((model / "config.json").read_text())
    config["id2label"] = dict(enumerate(labels))
    (model / "config.json").write_text(json.dumps(config))
    assert said in refused("explain", "a film", "--model", "model", "--target", target)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "which model?"),
        (["demo-txt"], "did you mean 'demo-text'"),
        (["demo-text", "--search", "zebra"], "no class of demo-text holds 'zebra'"),
        (["folder"], "has no config.json"),
    ],
)
def test_classes(refused: Refused, arguments: list[str], said: str) -> None:
    assert said in refused("classes", *arguments)


@contextlib.contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Nothing stops root: become nobody for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of somebody else, which everybody can reach and nobody may look into."""
    monkeypatch.chdir("/")
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name) / "closed"
        folder.mkdir()
        (folder / "good.png").write_bytes(png())
        (Path(name) / "secret.png").write_bytes(png())
        assert main(["explain", str(folder / "good.png")]) == 0  # import all while it is allowed
        (Path(name) / "secret.png").chmod(0o000)
        folder.chmod(0o000)
        yield folder
        folder.chmod(0o755)


def test_an_output_that_may_not_be_written(
    closed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (closed.parent / "why.png", closed / "why.png", closed / "new" / "why.png"):
        with as_ordinary_user():
            message = complaint(capsys, "explain", "a good film", "--out", path)
        assert f"cannot write {path}" in message
        assert "ermission denied" in message


def test_an_input_that_may_not_be_read(closed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (closed / "good.png", closed / "film.txt", closed):
        with as_ordinary_user():
            message = complaint(capsys, "explain", path)
        assert str(path) in message
        assert "ermission denied" in message


@pytest.mark.parametrize("name", ["secret.png", "closed/good.png"])
def test_an_image_that_may_not_be_read(closed: Path, name: str) -> None:
    with as_ordinary_user(), pytest.raises(InputError, match="permission denied"):
        read_image(closed.parent / name, [])


def test_a_model_that_may_not_be_read(closed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with as_ordinary_user():
        message = complaint(capsys, "explain", "a good film", "--model", closed / "model")
    assert str(closed / "model") in message
