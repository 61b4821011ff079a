"""The examples run, and leave what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import shared

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / command[0]), *command[1:]],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_two_classes(tmp_path: Path) -> None:
    from PIL import Image

    model = shared("data", "deit_tiny_patch16_224_hf")
    photos = sorted(shared("data", "pets_segmentation", "images").glob("*.jpg"))[:2]
    out = tmp_path / "two.png"
    run(tmp_path, "two_classes.py", str(model), *map(str, photos), str(out))
    width, height = Image.open(out).size
    assert width > 4 * 224
    assert height > 2 * 224
