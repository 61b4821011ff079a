"""Running commands in tests: fixtures and helpers of the command line's test files."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import whyformer
from whyformer.cli import main

SOURCE = Path(whyformer.__file__).resolve().parents[1]
#: what every run over many inputs writes beside the results
GALLERY = ("index.html", "results.csv")
REVIEW = "A warm, witty film: naïve & superb!"
#: the only escape codes that we write: colours of a ground and a letter, and back
OWN = re.compile(r"\x1b\[(0|[34]8;2;\d+;\d+;\d+;[34]8;2;\d+;\d+;\d+)m")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process: its exit code, output and errors."""

    def command(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        output, errors = capsys.readouterr()
        return code, output, errors

    return command


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    return draw(tmp_path / "scene.png", 0)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three images, one of them deeper down."""
    folder = tmp_path / "photos"
    for seed, name in enumerate(("a.png", "b.JPG", "deeper/c.webp")):
        draw(folder / name, seed)
    (folder / "remarks.txt").write_text("no image")
    return folder


def draw(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    os.utime(path, (1e9, 1e9))
    return path


def start(*arguments: object, cores: int = 1, **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": str(cores)}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.Popen(
        [sys.executable, "-m", "whyformer", *map(str, arguments)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts, **options,
    )  # fmt: skip


def heed_interrupts() -> None:
    """Processes of a shell's background start deaf to Ctrl-C, and so would theirs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def results(folder: Path) -> list[str]:
    """The results in a folder; not what is written about all of them."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
    return sorted(str(path.relative_to(folder)) for path in files if path.name not in GALLERY)


def targets(path: Path) -> list[Any]:
    return [view["target"] for view in json.loads(path.read_text())["views"]]


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The rows of the table of all results."""
    with open(folder / "results.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
