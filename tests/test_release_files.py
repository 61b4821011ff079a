"""What is in the wheel and in the sdist: everything needed and nothing else."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

import whyformer

pytestmark = pytest.mark.release

LARGEST = 15_000_000
NAME = f"whyformer-{whyformer.__version__}"
RECORDS = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE")
#: a data file's name stands in one of these, except for what Hugging Face's own format names
READERS = (".py", ".js", ".html")
FORMAT = (
    "config.json", "generation_config.json", "preprocessor_config.json", "tokenizer.json",
    "tokenizer_config.json", "model.safetensors",
)  # fmt: skip
CARD = "README.md"  # where the weights come from, and the licence of what they learnt from
MARK = "py.typed"  # read by type checkers


def contents(path: Path) -> dict[str, bytes]:
    with ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def shipped(wheel: Path) -> dict[str, bytes]:
    return contents(wheel)


def test_wheel_holds_the_package_and_its_records(
    shipped: dict[str, bytes], committed: set[str]
) -> None:
    package = {name.removeprefix("src/") for name in committed if name.startswith("src/")}
    assert set(shipped) == package | {f"{NAME}.dist-info/{record}" for record in RECORDS}


def test_nothing_in_the_wheel_is_compiled_or_hidden(shipped: dict[str, bytes]) -> None:
    for name in shipped:
        assert not any(part.startswith((".", "__pycache__")) for part in PurePosixPath(name).parts)


def test_files_are_small(wheel: Path, sdist: Path) -> None:
    assert wheel.stat().st_size < LARGEST
    assert sdist.stat().st_size < LARGEST


def test_every_data_file_is_read_by_something(shipped: dict[str, bytes]) -> None:
    inside = {name: data for name, data in shipped.items() if name.startswith("whyformer/")}
    texts = {name: data.decode() for name, data in inside.items() if name.endswith(READERS)}
    unread = []
    for path in map(PurePosixPath, inside):
        if path.suffix == ".py" or path.name == MARK:
            continue
        beside = {PurePosixPath(name).name for name in inside if name.startswith(f"{path.parent}/")}
        if path.name in (*FORMAT, CARD) and "model.safetensors" in beside:
            continue
        others = (text for name, text in texts.items() if name != str(path))
        if not any(path.name in text for text in others):
            unread.append(str(path))
    assert unread == []


def test_sdist_is_the_checkout(sdist: Path, committed: set[str]) -> None:
    """With tests, documentation and trainings: whoever packages it can run ``make test``."""
    with tarfile.open(sdist) as file:
        names = {member.name.removeprefix(f"{NAME}/") for member in file if member.isfile()}
    own = {name for name in names if name.startswith("src/whyformer.egg-info/")}
    assert names - own - {"PKG-INFO", "setup.cfg"} == committed


def test_wheel_of_the_sdist_is_the_same(wheel_of_sdist: Path, shipped: dict[str, bytes]) -> None:
    again = contents(wheel_of_sdist)
    own = {f"{NAME}.dist-info/{record}" for record in ("RECORD", "WHEEL")}  # name their builder
    assert set(again) == set(shipped)
    assert [name for name in again if again[name] != shipped[name] and name not in own] == []
