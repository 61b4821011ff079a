"""An upright RGB image from a file, its bytes, a PIL image or an array."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from whyformer.errors import InputError
from whyformer.files import FOLDER, what_is

#: larger images are refused: decoding them can take all memory
MOST_PIXELS = 100_000_000

ImageInput = str | Path | bytes | Image.Image | np.ndarray


def read_image(source: ImageInput, notes: list[str]) -> Image.Image:
    """An upright RGB image from a file, its bytes, a PIL image or an array.

    What was decided on the way (the first frame, a background for transparency) goes to ``notes``.
    """
    if isinstance(source, np.ndarray):
        source = from_array(source)
    if isinstance(source, Image.Image):
        with readable("the given image"):
            return to_rgb(source, notes)
    if isinstance(source, bytes):
        return decode(io.BytesIO(source), "the given image", notes)
    if not isinstance(source, str | Path):
        raise InputError(
            f"an image was expected, not {type(source).__name__}; give a path, a PIL image, an "
            "array (height, width, 3) or bytes; for tensors use whyformer.Explainer"
        )
    path = Path(source)
    kind = what_is(path)
    if kind is None:
        raise InputError(f"no such file: {source}")
    if kind == FOLDER:
        raise InputError(f"{path} is a folder; give an image file")
    return decode(path, str(path), notes)


class NotAnImageError(InputError):
    """The data are in no format that Pillow knows."""


def decode(source: Path | io.BytesIO, name: str, notes: list[str]) -> Image.Image:
    with readable(name), warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with Image.open(source) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Image.DecompressionBombError
            return to_rgb(image, notes)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """What Pillow finds wrong with an image, said in one sentence."""
    try:
        yield
    except InputError:
        raise
    except UnidentifiedImageError as error:
        raise NotAnImageError(f"{name} is not an image that Pillow can read") from error
    except Image.DecompressionBombError as error:
        raise InputError(
            f"{name} is enormous: more than {MOST_PIXELS // 1_000_000} million pixels, a "
            "decompression bomb or a mistake; make it smaller first"
        ) from error
    except PermissionError as error:
        raise InputError(f"{name} may not be read: permission denied") from error
    except MemoryError:
        raise
    except Exception as error:  # decoders raise whatever a damaged file makes them stumble over
        raise InputError(f"{name} is truncated or damaged: {error}") from error


def to_rgb(image: Image.Image, notes: list[str]) -> Image.Image:
    """Upright, eight bits, three channels."""
    if 0 in image.size:
        raise InputError("the image is empty: it has no pixels")
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        notes.append(f"the image is animated ({frames} frames): the first was explained")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I") or image.mode == "F":
        image = _deep_to_grey(image)
    if "transparency" in image.info or image.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        image = image.convert("RGBA")
        if np.asarray(image.getchannel("A")).min() < 255:
            notes.append("the image is partly transparent: it was put on white")
        ground = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(ground, image)
    return image.convert("RGB")


def _deep_to_grey(image: Image.Image) -> Image.Image:
    """Sixteen-bit and floating images keep their tones; plain ``convert`` would clip them."""
    values = np.asarray(image).astype(np.float64)
    top = 65535.0 if image.mode.startswith("I") and values.max() > 255 else 255.0
    if image.mode == "F" and values.max() <= 1:
        top = 1.0
    return Image.fromarray((values / top * 255).clip(0, 255).astype(np.uint8))


def from_array(array: np.ndarray) -> Image.Image:
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or 0 in array.shape:
        raise InputError(
            f"an array of {array.dtype} and shape {array.shape} was given; expected uint8 and "
            "(height, width) or (height, width, 3)"
        )
    try:
        return Image.fromarray(array)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"an array of shape {array.shape} is no image; expected (height, width, 3)"
        ) from error
