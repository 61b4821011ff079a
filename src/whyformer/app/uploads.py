"""Files that were sent: what they are and how large, before any decoder runs."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from PIL import Image, UnidentifiedImageError

from whyformer.app.refusals import RefusalError
from whyformer.errors import InputError
from whyformer.models.image_files import MOST_PIXELS
from whyformer.models.sounds import other_length

#: other formats that Pillow reads start programs or are rarely meant
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
IMAGE = f"an image of a known format: {', '.join(FORMATS)}"
ANIMATION = "an animation; send a GIF or WebP, films are for other programs to take apart"
#: a longer sound takes models that read all of it gigabytes
MOST_SECONDS = 60
#: samples a second: beyond these, resampling takes more memory than the sound
RATES = (4_000, 192_000)
MOST_FRAMES = 2_000

WAVES = {b"RIFF": "<", b"RF64": "<", b"RIFX": ">"}
#: how files of other sounds begin: FLAC, Ogg, MP3
SOUNDS = (b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")


def kind_of(data: bytes, known: Collection[str]) -> str:
    """What a file is read as where nobody says by which model; ``known`` are the models' kinds."""
    if (data[:4] in WAVES and data[8:12] == b"WAVE") or data.startswith(SOUNDS):
        return "sound"
    with opened(data) as image:
        return "video" if "video" in known and getattr(image, "n_frames", 1) > 1 else "image"


def check_file(kind: str, data: bytes) -> None:
    """Refuse what is not of that kind and a usual format, or too large to be decoded."""
    if kind not in CHECKS:
        raise RefusalError(415, f"the model reads {kind}s, and a file was sent; send JSON")
    CHECKS[kind](data)


@contextmanager
def opened(data: bytes, wanted: str = IMAGE) -> Iterator[Image.Image]:
    """A picture whose header was read and no more."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                yield image
    except RefusalError:
        raise
    except UnidentifiedImageError as error:
        raise RefusalError(415, f"the file is not {wanted}") from error
    except Image.DecompressionBombError as error:
        raise RefusalError(413, too_many("image")) from error
    except Exception as error:  # a damaged header makes decoders raise whatever they stumble over
        raise RefusalError(422, "the image is truncated or damaged") from error


def too_many(what: str) -> str:
    return (
        f"the {what} has more than {MOST_PIXELS // 1_000_000} million pixels; make it smaller first"
    )


def check_image(data: bytes) -> None:
    with opened(data) as image:
        if image.width * image.height > MOST_PIXELS:
            raise RefusalError(413, too_many("image"))


def check_video(data: bytes) -> None:
    """Frames count together; films are for other programs to take apart."""
    with opened(data, ANIMATION) as image:
        count = getattr(image, "n_frames", 1)
        if count == 1:
            raise RefusalError(
                422, "the file is one image, not a video; send an animated GIF or WebP"
            )
        if count > MOST_FRAMES:
            raise RefusalError(
                413, f"the video has {count} frames, more than {MOST_FRAMES}; send a part"
            )
        if image.width * image.height * count > MOST_PIXELS:
            raise RefusalError(413, too_many("video"))


def check_sound(data: bytes) -> None:
    if data[:4] in WAVES and data[8:12] == b"WAVE":
        rate, frames = wave_length(data)
    elif data.startswith(SOUNDS):
        try:
            rate, frames = other_length(data, "the file")
        except InputError as error:
            raise RefusalError(415, str(error)) from error
    else:
        raise RefusalError(
            415, "the file is not a sound of a known format: WAV, or FLAC, Ogg and MP3 with the "
            "package soundfile",
        )  # fmt: skip
    if not RATES[0] <= rate <= RATES[1]:
        raise RefusalError(
            422, f"the sound has {rate} samples a second; from {RATES[0]} to {RATES[1]} are read"
        )
    if frames > MOST_SECONDS * rate:
        raise RefusalError(
            413, f"the sound lasts {frames / rate:.0f} s, longer than {MOST_SECONDS}; send a part"
        )


def wave_length(data: bytes) -> tuple[int, int]:
    """The samples a second of a .wav file, and how many there are at most."""
    order, place = WAVES[data[:4]], 12
    while place + 24 <= len(data):
        name, size = struct.unpack_from(f"{order}4sI", data, place)
        if name == b"fmt ":
            _, _, rate, _, width = struct.unpack_from(f"{order}HHIIH", data, place + 8)
            return rate, (len(data) - place) // max(1, width)
        place += 8 + size + size % 2
    raise RefusalError(422, "the sound is truncated or damaged")


CHECKS: dict[str, Callable[[bytes], None]] = {
    "image": check_image,
    "sound": check_sound,
    "video": check_video,
}
