"""The examples run, and leave what they promise."""

from __future__ import annotations

import re
import runpy
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


def shares(line: str) -> list[float]:
    return [float(number) for number in re.findall(r"([0-9.]+) %", line)]


@pytest.mark.slow
def test_own_model_finds_the_truth(tmp_path: Path) -> None:
    lines = run(tmp_path, "own_model.py").splitlines()
    assert shares(lines[0])[0] > 95
    found = {line.split()[0]: shares(line) for line in lines[2:]}
    for method in ("transformer_attribution", "generic_attention"):
        assert found[method][0] > 80
        assert found[method][1] > found["chance"][1] + 30


@pytest.mark.slow
def test_regression_has_two_directions(tmp_path: Path) -> None:
    lines = run(tmp_path, "regression_head.py").splitlines()
    assert float(lines[0].split()[-1]) < 0.1
    found = {tuple(line.split("?")[0].split()): shares(line) for line in lines[2:]}
    for method in ("transformer_attribution", "generic_attention"):
        high, low = (found[method, "why", "so", way] for way in ("high", "low"))
        assert high[0] > low[0]
        assert low[1] > high[1]


def run_here(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> None:
    """In this process, where conftest has made torchvision importable."""
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    import numpy as np
    from PIL import Image

    path = tmp_path / "photo.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    return path


@pytest.mark.vision
def test_timm_model(
    tmp_path: Path,
    photo: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import timm
    from safetensors.torch import save_file

    weights, out = tmp_path / "weights.safetensors", tmp_path / "why.png"
    save_file(timm.create_model("deit_tiny_patch16_224").state_dict(), weights)
    run_here(monkeypatch, "timm_model.py", str(photo), str(out), "--weights", str(weights))
    assert out.stat().st_size > 10_000
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.vision
def test_torchvision_model(
    tmp_path: Path,
    photo: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "why.png"
    run_here(monkeypatch, "torchvision_model.py", str(photo), str(out), "--random")
    assert out.stat().st_size > 10_000
    assert "patches (14, 14)" in capsys.readouterr().out
