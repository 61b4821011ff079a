"""A photo of which the model saw a part: pictures show the whole of it, with a frame."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from small_images import save_vit
from whyformer.explanation import Explanation
from whyformer.photo import LARGEST, LARGEST_SEEN, Crop
from whyformer.render import Look, make_sheet
from whyformer.render.document import document
from whyformer.render.image import UNSEEN
from whyformer.render.panels import image_figure
from whyformer.render.records import record_of
from whyformer.render.saving import save_sheet

GREEN = (20, 160, 60)


def load_cutting(folder: Path) -> Any:
    """A model whose preprocessing squashes a photo and takes the middle half of each side."""
    torch.manual_seed(0)
    path = save_vit(folder) / "preprocessor_config.json"
    settings = json.loads(path.read_text())
    edge, side = {"height": 64, "width": 64}, {"height": 32, "width": 32}
    cut = {"image_processor_type": "DeiTImageProcessor", "do_center_crop": True}
    path.write_text(json.dumps({**settings, **cut, "size": edge, "crop_size": side}))
    return whyformer.load(folder)


@pytest.fixture(scope="module")
def why(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_cutting(tmp_path_factory.mktemp("cutting") / "vit")


@pytest.fixture(scope="module", params=[(512, 256), (256, 512)], ids=["wide", "tall"])
def explanation(request: pytest.FixtureRequest, why: Any) -> Explanation:
    found: Explanation = why(Image.new("RGB", request.param, GREEN), target=1)
    return found


def panels_of(explanation: Explanation, **look: Any) -> list[Any]:
    figure = image_figure(make_sheet(explanation), Look(**look))
    return [mark for mark in figure.marks if hasattr(mark, "image")][:2]


def test_the_whole_photo_is_drawn_pale_outside_of_the_frame(explanation: Explanation) -> None:
    (crop,) = explanation.crops or [None]
    assert crop is not None
    height, width = crop.size
    for panel in panels_of(explanation):
        assert panel.width / panel.height == pytest.approx(width / height, rel=0.01)
        pixels = np.asarray(panel.image, int)
        pale = [255 + UNSEEN * (part - 255) for part in GREEN]
        assert np.abs(pixels[2, 2] - pale).max() <= 1
        assert np.abs(pixels[-3, -3] - pale).max() <= 1
    plain, mapped = (np.asarray(panel.image, int) for panel in panels_of(explanation))
    assert tuple(plain[plain.shape[0] // 2, plain.shape[1] // 2]) == GREEN
    changed = np.abs(plain - mapped).max(-1) > 0
    rows, columns = np.nonzero(changed)
    top, left, bottom, right = crop.scaled(plain.shape[:2]).box
    assert (rows.min(), columns.min()) == (top, left)
    assert (rows.max() + 1, columns.max() + 1) == (bottom, right)


def test_only_what_was_seen_is_drawn_where_that_is_asked_for(explanation: Explanation) -> None:
    plain, mapped = panels_of(explanation, cropped=True)
    assert (plain.width, mapped.width) == (plain.height, mapped.height)
    assert (np.abs(np.asarray(plain.image, int) - GREEN) <= 1).all()


def test_a_vector_picture_tells_scores_inside_of_the_frame(
    explanation: Explanation, tmp_path: Path
) -> None:
    (crop,) = explanation.crops or [None]
    assert crop is not None
    path = save_sheet(make_sheet(explanation), tmp_path / "why.svg")
    _, panel = panels_of(explanation)
    number = r'="([\d.]+)" '
    pattern = f"<rect x{number}y{number}width{number}height{number}fill-opacity"
    shapes = re.findall(pattern, path.read_text())
    places = np.array(shapes, float)
    left, top, right, bottom = crop.shares
    assert places[:, 0].min() == pytest.approx(left * panel.width, abs=0.1)
    assert places[:, 1].min() == pytest.approx(top * panel.height, abs=0.1)
    assert (places[:, 0] + places[:, 2]).max() == pytest.approx(right * panel.width, abs=0.1)
    assert (places[:, 1] + places[:, 3]).max() == pytest.approx(bottom * panel.height, abs=0.1)


def test_pages_and_files_say_where_the_image_was(explanation: Explanation, tmp_path: Path) -> None:
    (crop,) = explanation.crops or [None]
    assert crop is not None
    sheet = make_sheet(explanation)
    told = document(sheet)["image"]["crop"]
    assert told == {"width": crop.size[1], "height": crop.size[0], "box": list(crop.box)}
    assert document(sheet, for_page=True)["image"]["crop"]["src"].startswith("data:image/jpeg")
    for name in ("why.json", "why.npz"):
        loaded = Explanation.load(save_sheet(sheet, tmp_path / name))
        original = loaded.image_map(original=True)
        assert original.shape == (1, *crop.size)
        expected = explanation.image_map(original=True)
        assert np.allclose(original, expected.double(), equal_nan=True)
    assert panels_of(loaded)[0].width == panels_of(loaded)[0].height  # no file holds the photo


def test_a_thumbnail_is_of_the_whole_photo(explanation: Explanation) -> None:
    wide, tall = (record_of(make_sheet(explanation), Look(cropped=cut)) for cut in (False, True))
    assert wide["thumbnail"] != tall["thumbnail"]


def test_a_photo_that_is_squashed_has_no_frame(tmp_path: Path) -> None:
    why = whyformer.load(save_vit(tmp_path / "vit"))
    explanation = why(Image.new("RGB", (512, 256), GREEN), target=1)
    assert explanation.notes == ()
    (panel, _) = panels_of(explanation)
    assert panel.width == panel.height
    assert "crop" not in document(make_sheet(explanation))["image"]


def test_a_large_photo_is_kept_small() -> None:
    long = Crop((500, 20_000), (0, 9_750, 500, 10_250)).keeping(Image.new("L", (20_000, 500)))
    assert long.photo is not None
    assert long.photo.size == (LARGEST, 51)
    square = Crop((4000, 4000), (250, 250, 3750, 3750)).keeping(Image.new("L", (4000, 4000)))
    assert square.photo is not None
    assert square.photo.width * 3500 / 4000 == pytest.approx(LARGEST_SEEN, abs=1)
