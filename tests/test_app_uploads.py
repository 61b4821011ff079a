"""Files that are sent to the server: limits hold before anything is decoded."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import whyformer
from small_sounds import beeps, save_wav2vec2, write_wav
from small_videos import ball, save_video, write_gif
from whyformer.app.recordings import RecordingCache
from whyformer.app.refusals import RefusalError
from whyformer.app.uploads import MOST_FRAMES, check_file, kind_of, wave_length


@pytest.fixture
def wav(tmp_path: Path) -> bytes:
    return write_wav(tmp_path / "a.wav", beeps(0.5)).read_bytes()


@pytest.fixture
def gif(tmp_path: Path) -> bytes:
    return write_gif(tmp_path / "a.gif", ball()).read_bytes()


def wave_file(rate: int = 16000, size: int = 32000, width: int = 2, order: str = "<") -> bytes:
    """A file whose header may say anything."""
    name = b"RIFF" if order == "<" else b"RIFX"
    form = struct.pack(f"{order}4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 0, width, 8 * width)
    data = struct.pack(f"{order}4sI", b"data", size) + bytes(size)
    return name + struct.pack(f"{order}I", 4 + len(form + data)) + b"WAVE" + form + data


def test_files_are_told_apart(wav: bytes, gif: bytes) -> None:
    still = io.BytesIO()
    Image.new("RGB", (8, 8)).save(still, "GIF")
    everything = ["image", "sound", "video"]
    assert kind_of(wav, everything) == "sound"
    assert kind_of(b"fLaC" + bytes(99), everything) == "sound"
    assert kind_of(gif, everything) == "video"
    assert kind_of(gif, ["image", "sound"]) == "image"
    assert kind_of(still.getvalue(), everything) == "image"
    for kind, data in {"sound": wav, "video": gif, "image": gif}.items():
        check_file(kind, data)


@pytest.mark.parametrize(
    ("kind", "data", "status", "said"),
    [
        ("sound", b"", 415, "not a sound of a known format: WAV"),
        ("sound", b"\x89PNG\r\n\x1a\n" + bytes(99), 415, "not a sound"),
        ("sound", b"RIFF\0\0\0\0WAVE", 422, "truncated or damaged"),
        ("sound", b"RIFF\0\0\0\0AVI " + bytes(99), 415, "not a sound"),
        ("sound", wave_file(1), 422, "1 samples a second"),
        ("sound", wave_file(4_000_000_000), 422, "from 4000 to 192000"),
        ("sound", wave_file(8000, 2 * 8000 * 61), 413, "lasts 61 s, longer than 60"),
        ("sound", wave_file(8000, 8000 * 61, width=0), 413, "longer than 60"),
        ("sound", wave_file(8000, 8000 * 2 * 61, order=">"), 413, "longer than 60"),
        ("video", b"\0\0\0\x18ftypmp42" + bytes(99), 415, "send a GIF or WebP"),
        ("image", b"RIFF\0\0\0\0WAVE", 415, "not an image"),
        ("text", b"a", 415, "reads texts, and a file was sent"),
    ],
)  # fmt: skip
def test_what_is_refused(kind: str, data: bytes, status: int, said: str) -> None:
    with pytest.raises(RefusalError, match=said) as refused:
        check_file(kind, data)
    assert refused.value.status == status


def test_a_header_among_others() -> None:
    whole = wave_file()
    other = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    rate, frames = wave_length(whole[:12] + other + whole[12:])
    assert rate == 16000
    assert 16000 <= frames < 16100


@pytest.mark.parametrize(
    ("frames", "side", "said"),
    [
        (1, 8, "one image, not a video"),
        (MOST_FRAMES + 1, 1, "2001 frames"),
        (30, 2000, "million pixels"),
    ],
)
def test_videos_that_are_too_large(frames: int, side: int, said: str) -> None:
    noise = [Image.new("L", (side, side), i % 255) for i in range(frames)]
    buffer = io.BytesIO()
    noise[0].save(buffer, "GIF", save_all=True, append_images=noise[1:])
    with pytest.raises(RefusalError, match=said):
        check_file("video", buffer.getvalue())


@pytest.mark.parametrize("make", [save_wav2vec2, save_video])
def test_what_is_kept_counts(make: Any, wav: bytes, gif: bytes, tmp_path: Path) -> None:
    why = whyformer.load(make(tmp_path / "model"))
    data = wav if why.takes == "sound" else gif
    recorded = why.record(data)
    own = why.ear.hear(data, []).samples if why.takes == "sound" else recorded._show.args[0]
    assert recorded.bytes == recorded._recording.bytes + own.nbytes
    cache = RecordingCache([why], keep=4, most_bytes=recorded.bytes)
    first = cache.read(why, data, "").key
    longer = np.concatenate([beeps(0.5), beeps(0.5)])
    second = write_wav(tmp_path / "b.wav", longer).read_bytes()
    third = write_wav(tmp_path / "c.wav", longer[::-1]).read_bytes()
    if why.takes == "video":
        second, third = (write_gif(tmp_path / f"{n}.gif", ball(n)).read_bytes() for n in (5, 6))
    cache.read(why, second, "")
    cache.read(why, third, "")
    assert cache.find(first) is None
