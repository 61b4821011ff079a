"""A file appears whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import whyformer
from command_line import heed_interrupts
from whyformer import OutputError
from whyformer.files import check_writable, write_whole

SOURCE = Path(whyformer.__file__).resolve().parents[1]
NOBODY = 65534


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts,
    )  # fmt: skip


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@contextlib.contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Nothing stops root: become nobody for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def refused(path: Path, content: bytes | str = "new") -> str:
    with pytest.raises(OutputError) as caught:
        write_whole(path, content)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"cannot write {path}: ")
    return message


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"\0\xff\r\n", b"\0\xff\r\n"), ("né\r\n猫", "né\r\n猫".encode()), ("", b"")],
)
def test_content_is_written_as_given(tmp_path: Path, content: bytes | str, expected: bytes) -> None:
    path = tmp_path / "why.bin"
    write_whole(path, content)
    assert path.read_bytes() == expected
    assert os.listdir(tmp_path) == ["why.bin"]


def test_what_was_there_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "why.txt"
    path.write_text("a long old content")
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["why.txt"]


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b c" / "猫" / "why.txt"
    write_whole(path, "new")
    assert path.read_text() == "new"


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_writable(Path("why.txt"))
    write_whole(Path("why.txt"), "new")
    assert (tmp_path / "why.txt").read_text() == "new"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "why.txt", "new")
        left = os.umask(mask)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "why.txt").stat().st_mode) == 0o666 & ~mask
    assert left == mask


@pytest.mark.parametrize("length", [200, 251, 255])
def test_the_longest_names_that_a_folder_takes(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("x" * (length - 4) + ".png")
    path.write_text("old")
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert len(os.listdir(tmp_path)) == 1


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "why.txt"
    target.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


FULL = """
import resource, sys
from pathlib import Path
from whyformer import OutputError
from whyformer.files import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_whole(Path(sys.argv[1]), b"x" * 5000)
except OutputError as error:
    print(error)
"""


@pytest.mark.parametrize("old", ["old content", None])
def test_a_disk_that_is_full_leaves_what_was_there(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "why.png"
    if old:
        path.write_text(old)
    output, errors = python(FULL, path).communicate(timeout=60)
    assert output == f"cannot write {path}: File too large\n", errors
    assert os.listdir(tmp_path) == (["why.png"] if old else [])
    if old:
        assert path.read_text() == old


ENDLESS = """
import sys
from pathlib import Path
from whyformer.files import write_whole
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"):
        write_whole(Path(sys.argv[1]), letter * 3_000_000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_writer_that_is_stopped_leaves_a_whole_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "why.bin"
    writer = python(ENDLESS, path)
    assert writer.stdout is not None
    writer.stdout.readline()
    until = time.monotonic() + 30
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)
    for _ in range(5):
        content = path.read_bytes()
        assert len(content) == 3_000_000
        assert content in (b"a" * 3_000_000, b"b" * 3_000_000)
        time.sleep(0.02)
    writer.send_signal(number)
    writer.communicate(timeout=30)
    content = path.read_bytes()
    assert content in (b"a" * 3_000_000, b"b" * 3_000_000)
    if number == signal.SIGINT:
        assert os.listdir(tmp_path) == ["why.bin"]


def test_a_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "why.png").mkdir()
    refused(tmp_path / "why.png")
    assert os.listdir(tmp_path) == ["why.png"]


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    path = tmp_path / "file" / "deeper" / "why.png"
    refused(path)
    with pytest.raises(OutputError, match="is not a folder"):
        check_writable(path)
    assert (tmp_path / "file").read_text() == "old"


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    refused(tmp_path / ("x" * 300))
    with pytest.raises(OutputError):
        check_writable(tmp_path / ("x" * 300 + ".png"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_folder_that_may_not_be_written(open_folder: Path, mode: int) -> None:
    """Mode 0 may not even be looked into."""
    folder = open_folder / "closed"
    folder.mkdir()
    folder.chmod(mode)
    try:
        with as_ordinary_user():
            assert "ermission denied" in refused(folder / "why.png")
            with pytest.raises(OutputError, match="ermission denied"):
                check_writable(folder / "why.png")
            with pytest.raises(OutputError, match="ermission denied"):
                check_writable(folder / "new" / "why.png")
    finally:
        folder.chmod(0o755)
    assert os.listdir(folder) == []


def test_a_folder_that_may_be_written(open_folder: Path) -> None:
    folder = open_folder / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with as_ordinary_user():
        check_writable(folder / "new" / "why.png")
        write_whole(folder / "new" / "why.png", "new")
        assert (folder / "new" / "why.png").read_text() == "new"


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "deeper" / "why.png")
    assert os.listdir(tmp_path) == []
