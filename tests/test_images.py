"""Whatever kind of image a user has, the model sees what a person sees, upright and whole."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import whyformer
from whyformer import InputError, Pipeline
from zoo import VISION

SIDE = 32
Place = Image.Transpose


@pytest.fixture(scope="session")
def why(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A tiny ViT that reads 32 x 32 pixels."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("vit")
    ViTForImageClassification(ViTConfig(**VISION)).save_pretrained(folder)
    settings = {
        "image_processor_type": "ViTImageProcessor",
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.3, 0.4],
        "size": {"height": SIDE, "width": SIDE},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return whyformer.load(folder)


def scene(width: int = 48, height: int = 40) -> Image.Image:
    """Smooth colours without any symmetry."""
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    planes = [x, y * y, (1 - x) * y]
    return Image.fromarray((np.stack(planes, -1) * 255).round().astype(np.uint8))


def seen(why: Pipeline, source: Any) -> Tensor:
    """The pixels that the model read, from 0 to 1."""
    picture = why(source, method="raw_attention").picture
    assert picture is not None
    return picture[0]


def difference(why: Pipeline, one: Any, other: Any) -> float:
    return float((seen(why, one) - seen(why, other)).abs().max())


def notes(why: Pipeline, source: Any) -> str:
    return " ".join(why(source, method="raw_attention").notes)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def refused(why: Pipeline, source: Any) -> str:
    with pytest.raises(InputError) as caught:
        why(source)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_picture_is_the_resized_original(why: Pipeline) -> None:
    expected = np.asarray(scene().resize((SIDE, SIDE), Image.Resampling.BILINEAR)) / 255
    shown = seen(why, scene()).permute(1, 2, 0).numpy()
    assert np.abs(shown - expected).max() < 2 / 255


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(str, id="str"),
        pytest.param(Path, id="Path"),
        pytest.param(lambda path: path.read_bytes(), id="bytes"),
        pytest.param(Image.open, id="PIL"),
        pytest.param(lambda path: np.asarray(Image.open(path)), id="array"),
    ],
)
def test_every_form_gives_the_same_pixels(
    why: Pipeline, tmp_path: Path, form: Callable[[Path], Any]
) -> None:
    path = tmp_path / "scene.png"
    scene().save(path)
    explanation = why(form(path), target=2)
    assert explanation.grid == (4, 4)
    assert explanation.target.tolist() == [2]
    assert torch.equal(explanation.picture, why(scene(), target=2).picture)
    assert torch.equal(explanation.relevance, why(scene(), target=2).relevance)


@pytest.mark.parametrize("name", ["with space.png", "猫.png", "a'b\"c.png", "no-ending", "x.TXT"])
def test_a_path_may_have_any_name(why: Pipeline, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(encoded(scene()))
    assert difference(why, path, scene()) == 0


@pytest.mark.parametrize("together", [list, tuple])
def test_several_images_of_any_sizes_at_once(why: Pipeline, together: Callable[[Any], Any]) -> None:
    images = [scene(), scene(20, 70), encoded(scene(64, 64).convert("L"))]
    explanation = why(together(images), target=[0, 1, 4])
    assert explanation.relevance.shape == (3, 17)
    for i, (image, target) in enumerate(zip(images, (0, 1, 4), strict=True)):
        alone = why(image, target=target)
        assert torch.equal(explanation.picture[i], alone.picture[0])
        assert torch.allclose(explanation.relevance[i], alone.relevance[0], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV", "LAB"])
def test_other_modes_become_rgb(why: Pipeline, mode: str) -> None:
    image = scene().convert(mode)
    assert seen(why, image).shape == (3, SIDE, SIDE)
    assert difference(why, image, image.convert("RGB")) == 0
    assert notes(why, image) == ""


@pytest.mark.parametrize(("kind", "mode"), [("JPEG", "CMYK"), ("GIF", "P"), ("PNG", "1")])
def test_files_in_other_modes(why: Pipeline, kind: str, mode: str) -> None:
    data = encoded(scene().convert(mode), kind)
    assert difference(why, data, scene().convert(mode).convert("RGB")) < 12 / 255


def test_a_grey_array(why: Pipeline) -> None:
    grey = scene().convert("L")
    assert difference(why, np.asarray(grey), grey) == 0


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_keep_their_tones(why: Pipeline, kind: str) -> None:
    ramp = np.tile(np.linspace(0, 65535, 64), (64, 1))
    deep = Image.fromarray(ramp.astype(np.uint16))
    assert deep.mode.startswith("I")
    shallow = Image.fromarray((ramp / 257).round().astype(np.uint8))
    assert difference(why, encoded(deep, kind), shallow) < 2 / 255
    assert difference(why, deep, shallow) < 2 / 255


@pytest.mark.parametrize("top", [1.0, 255.0])
def test_floating_images_keep_their_tones(why: Pipeline, top: float) -> None:
    ramp = np.tile(np.linspace(0, 1, 64), (64, 1))
    deep = Image.fromarray((ramp * top).astype(np.float32))
    assert deep.mode == "F"
    shallow = Image.fromarray((ramp * 255).round().astype(np.uint8))
    assert difference(why, deep, shallow) < 2 / 255


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_what_is_transparent_lies_on_white(why: Pipeline, mode: str) -> None:
    image = Image.new("RGBA", (64, 64), (0, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 64, 32))
    converted = image.convert(mode)
    converted.putalpha(image.getchannel("A"))  # which Pillow before 12 drops on the way to PA
    picture = seen(why, converted)
    assert float(picture[:, :14].min()) > 0.99
    assert float(picture[:, 18:].max()) < 0.01
    assert "put on white" in notes(why, converted)


def test_half_transparent_is_half_white(why: Pipeline) -> None:
    picture = seen(why, Image.new("RGBA", (40, 40), (255, 0, 0, 128)))
    expected = torch.tensor([1, 127 / 255, 127 / 255]).view(3, 1, 1)
    assert float((picture - expected).abs().max()) < 2 / 255


def test_a_palette_with_a_transparent_colour(why: Pipeline) -> None:
    image = Image.new("P", (40, 40), 0)
    image.putpalette([10, 20, 30, 200, 100, 50])
    data = encoded(image, "PNG", transparency=0)
    assert float(seen(why, data).min()) > 0.99
    assert "put on white" in notes(why, data)


def test_an_opaque_alpha_needs_no_remark(why: Pipeline) -> None:
    assert notes(why, scene().convert("RGBA")) == ""
    assert difference(why, scene().convert("RGBA"), scene()) == 0


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_an_animation_the_first_frame(why: Pipeline, kind: str) -> None:
    frames = [Image.new("RGB", (40, 40), colour) for colour in ("red", "green", "blue")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    assert difference(why, data, frames[0]) < 3 / 255
    assert "3 frames" in notes(why, data)
    assert "first" in notes(why, data)


#: how a camera that is held so stores an upright scene
STORED = {
    1: None,
    2: Place.FLIP_LEFT_RIGHT,
    3: Place.ROTATE_180,
    4: Place.FLIP_TOP_BOTTOM,
    5: Place.TRANSPOSE,
    6: Place.ROTATE_90,
    7: Place.TRANSVERSE,
    8: Place.ROTATE_270,
}


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize(("kind", "tolerance"), [("PNG", 0.0), ("JPEG", 8 / 255)])
def test_a_turned_photo_is_put_upright(
    why: Pipeline, orientation: int, kind: str, tolerance: float
) -> None:
    how = STORED[orientation]
    stored = scene() if how is None else scene().transpose(how)
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(stored, kind, exif=exif, **({"quality": 98} if kind == "JPEG" else {}))
    assert difference(why, data, scene()) <= tolerance
    assert difference(why, Image.open(io.BytesIO(data)), scene()) <= tolerance


def test_a_nonsense_orientation_is_ignored(why: Pipeline) -> None:
    exif = Image.Exif()
    exif[0x0112] = 77
    assert difference(why, encoded(scene(), "PNG", exif=exif), scene()) == 0


@pytest.mark.parametrize(
    ("width", "height"),
    [(1, 1), (1, 50), (50, 1), (3, 3), (3, 50), (50, 3), (2, 2), (4000, 2), (2, 4000)],
)
def test_extreme_sizes(why: Pipeline, width: int, height: int) -> None:
    """Three rows of pixels are not three channels."""
    image = scene(width, height)
    expected = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)) / 255
    shown = seen(why, image).permute(1, 2, 0).numpy()
    assert np.abs(shown - expected).max() < 2 / 255


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "TIFF"])
@pytest.mark.parametrize("keep", [0.5, 0.9])
def test_a_truncated_file(why: Pipeline, tmp_path: Path, kind: str, keep: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (80, 80, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    path = tmp_path / "cut"
    path.write_bytes(data[: int(len(data) * keep)])
    message = refused(why, path)
    assert str(path) in message
    assert "truncated or damaged" in message or "not an image" in message
    assert "the given image" in refused(why, path.read_bytes())


def test_a_truncated_image_that_was_opened_before(why: Pipeline) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (80, 80, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), "JPEG")
    assert "truncated" in refused(why, Image.open(io.BytesIO(data[: len(data) // 2])))


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"hello", b"<svg></svg>", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"%PDF-1.4"]
)
def test_what_is_no_image(why: Pipeline, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(content)
    assert str(path) in refused(why, path)
    refused(why, content)


def test_a_missing_file_a_folder_and_an_endless_name(why: Pipeline, tmp_path: Path) -> None:
    assert "no such file" in refused(why, tmp_path / "none.png")
    assert "no such file" in refused(why, str(tmp_path / "none" / "none.png"))
    assert "is a folder" in refused(why, tmp_path)
    assert "no such file" in refused(why, "x" * 5000)
    assert "no such file" in refused(why, "a\0b.png")


def bomb(width: int, height: int) -> bytes:
    """A few bytes that claim to be a large picture."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("size", [(11_000, 10_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_not_opened(why: Pipeline, size: tuple[int, int]) -> None:
    assert "enormous" in refused(why, bomb(*size))


def test_an_empty_image(why: Pipeline) -> None:
    refused(why, Image.new("RGB", (0, 5)))
    refused(why, Image.new("RGB", (0, 0)))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([], "empty"),
        (3, "not int"),
        (None, "not NoneType"),
        (torch.zeros(3, 32, 32), "for tensors use whyformer.Explainer"),
        (np.zeros((32, 32, 3)), "float64"),
        (np.zeros((3, 32, 32), np.uint8), "(3, 32, 32)"),
        (np.zeros((32, 32, 7), np.uint8), "(32, 32, 7)"),
        (np.zeros((0, 32, 3), np.uint8), "(0, 32, 3)"),
        (np.zeros((2, 32, 32, 3), np.uint8), "(2, 32, 32, 3)"),
        (np.zeros(32, np.uint8), "(32,)"),
        ([scene(), 3], "not int"),
    ],
)
def test_what_cannot_be_read_as_an_image(why: Pipeline, source: Any, said: str) -> None:
    assert said in refused(why, source)


def test_the_given_image_is_left_as_it_was(why: Pipeline) -> None:
    image = scene().convert("RGBA")
    before = image.tobytes()
    why(image)
    assert image.tobytes() == before
    array = np.asarray(scene()).copy()
    before = array.tobytes()
    why(array)
    assert array.tobytes() == before


def test_an_image_of_a_few_pixels_is_said_to_be_one(why: Pipeline) -> None:
    (note,) = why(scene(3, 2)).notes
    assert note.startswith("the image has 3 x 2 pixels; it was enlarged to the model's 32")
    (note,) = why([scene(), scene(1, 1)]).notes
    assert note.startswith("the image has 1 x 1 pixels")
    assert why(scene(4, 2)).notes == ()
