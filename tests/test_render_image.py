"""A map over an image shows what was measured, where it was measured, and nothing else."""

from __future__ import annotations

import time

import numpy as np
import pytest
from PIL import Image

from sheets import CAT, DOG, GREY, canvas, image_sheet, one_hot
from whyformer import InputError
from whyformer.render.figure import Writing, wrapped
from whyformer.render.fonts import base_face, text_width
from whyformer.render.image import colour_bar, enlarged, overlay
from whyformer.render.look import Look
from whyformer.render.palettes import NAMES, map_colours, table
from whyformer.render.panels import image_figure, panels
from whyformer.render.scaling import scaled
from whyformer.render.sheet import ClassScore, Sheet, View

PAPER = [255, 255, 255]
SCREEN = Look(dpi=96)


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(96, 48), (30, 90), (500, 250), (1, 4)])
def test_images_keep_their_aspect(size: tuple[int, int]) -> None:
    large = enlarged(Image.new("RGB", size))
    assert max(large.size) == max(384, *size)
    assert large.width / large.height == pytest.approx(size[0] / size[1], rel=0.01)


def test_the_caller_s_image_is_not_drawn_on() -> None:
    image = canvas()
    overlay(image, np.ones((2, 2)), contour=0.5, smooth=False)
    assert image.getcolors() == [(60 * 30, GREY)]


# --- panels --------------------------------------------------------------------------------------


def several() -> Sheet:
    """Two classes by two class-specific methods and one that is not; each has its own corner."""
    return image_sheet(
        View("lrp", CAT, one_hot(2, 2, (0, 0))),
        View("lrp", DOG, one_hot(2, 2, (0, 1))),
        View("gradcam", CAT, one_hot(2, 2, (1, 0))),
        View("gradcam", DOG, one_hot(2, 2, (1, 1))),
        View("rollout", None, 1 - one_hot(2, 2, (0, 0))),
        size=(224, 112),
        colour=GREY,
    )


def cells(picture: Image.Image, width: int, height: int) -> list[list[np.ndarray]]:
    """The panels' pixels, found by where paper ends."""
    pixels = np.asarray(picture).astype(int)
    busy = (pixels != 255).any(-1)
    tops = [y for y in range(len(busy) - height) if busy[y : y + height, 16 : 16 + width].all()]
    tops = [y for i, y in enumerate(tops) if i == 0 or y != tops[i - 1] + 1]
    row = busy[tops[0] : tops[0] + height].all(0)
    starts = np.flatnonzero(np.diff(row.astype(int), prepend=0) == 1)
    lefts = [x for x in starts if row[x : x + width].all()]
    return [[pixels[y : y + height, x : x + width] for x in lefts] for y in tops]


def corner(pixels: np.ndarray) -> tuple[int, int]:
    """The brightest quarter of a panel."""
    height, width = pixels.shape[0] // 2, pixels.shape[1] // 2
    quarters = pixels.sum(-1).reshape(2, height, 2, width).mean((1, 3))
    y, x = np.unravel_index(quarters.argmax(), quarters.shape)
    return int(y), int(x)


def test_panels_have_a_row_a_class_and_a_column_a_method() -> None:
    table = cells(panels(several(), Look(opacity=1.0, smooth=False, dpi=96)), 224, 112)
    assert [len(row) for row in table] == [4, 4]
    for row in table:
        assert (row[0] == GREY).all()
    assert [corner(cell) for cell in table[0][1:3]] == [(0, 0), (1, 0)]
    assert [corner(cell) for cell in table[1][1:3]] == [(0, 1), (1, 1)]
    np.testing.assert_array_equal(table[0][3], table[1][3])
    assert not (table[0][3] == GREY).all()


def test_panels_are_no_larger_than_they_need() -> None:
    table = panels(several(), SCREEN)
    assert 4 * 224 < table.width < 4 * 224 + 200
    assert 2 * 112 < table.height < 2 * 112 + 180
    pixels = np.asarray(table)
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert (edge == PAPER).all()


def test_one_method_shows_its_classes_in_one_row() -> None:
    views = [View("lrp", CAT, one_hot(2, 2, (0, 0))), View("lrp", DOG, one_hot(2, 2, (1, 1)))]
    picture = panels(image_sheet(*views, size=(320, 160), colour=GREY), Look(1.0, False, dpi=96))
    (row,) = cells(picture, 320, 160)
    assert len(row) == 3
    assert [corner(cell) for cell in row[1:]] == [(0, 0), (1, 1)]


def test_a_class_without_an_index_keeps_its_map() -> None:
    """A function as the target has no logit: its number is NaN, which equals nothing."""

    def function() -> ClassScore:
        return ClassScore(-1, "the asked function", float("nan"), None)

    views = [View(method, function(), one_hot(2, 2, (0, 0))) for method in ("lrp", "gradcam")]
    sheet = image_sheet(*views, size=(224, 112), classes=[CAT, DOG])
    for score in sheet.asked:
        assert all(sheet.view(method, score) is not None for method in sheet.methods)


def heading_pixels(label: str, **score: float | None) -> np.ndarray:
    given = ClassScore(0, label, **{"logit": 1.0, "probability": 0.5, **score})  # type: ignore[arg-type]
    sheet = image_sheet(View("lrp", given, np.eye(2)), size=(320, 160), colour=GREY)
    return np.asarray(panels(sheet, SCREEN)).astype(int)


def written(label: str, **look: object) -> list[str]:
    given = ClassScore(0, label, logit=1.0, probability=0.5)
    sheet = image_sheet(View("lrp", given, np.eye(2)), size=(320, 160), colour=GREY)
    figure = image_figure(sheet, Look(**look))  # type: ignore[arg-type]
    return [mark.text for mark in figure.marks if isinstance(mark, Writing)]


@pytest.mark.parametrize("label", ["Greater Swiss Mountain dog", "cat" * 60, "a b " * 50 + "c"])
def test_a_long_label_is_wrapped_and_whole(label: str) -> None:
    lines = wrapped(f"why {label}?", 200, 15)
    assert all(text_width(line, 15, base_face(line)) <= 200 for line in lines)
    assert "".join(lines).replace(" ", "") == f"why {label}?".replace(" ", "")
    said = "".join(written(label, width=4.0)).replace(" ", "")
    assert f"why {label}?".replace(" ", "") in said


def test_a_long_label_pushes_the_picture_down_and_not_aside() -> None:
    short, long = heading_pixels("cat"), heading_pixels("cat" * 60)
    assert short.shape[1] == long.shape[1]
    assert short.shape[0] < long.shape[0]
    gap = (long != 255).any(-1)[:, 16 + 320 : 16 + 320 + 10]
    assert not gap.any()


def test_an_endless_label_is_wrapped_in_a_moment() -> None:
    start = time.perf_counter()
    lines = wrapped("x" * 2000, 200, 15)
    assert time.perf_counter() - start < 2
    assert "".join(lines) == "x" * 2000


@pytest.mark.parametrize("label", ["猫", "קטטה", "🐈 cat", "café", "a\nb", "", "\x1b[31m", "I" * 9])
def test_labels_of_any_kind_stay_in_their_caption(label: str) -> None:
    """Below the captions nothing changes; a note about a font may stand below the maps."""
    one, other = heading_pixels("cat"), heading_pixels(label)
    changed = (one != other[: len(one)]).any(-1)
    assert changed[:42].any()
    assert not changed[42:200].any()


# --- scales, colours and sizes -------------------------------------------------------------------


def test_one_scale_for_all_classes_of_a_method() -> None:
    sheet = image_sheet(
        View("lrp", CAT, one_hot(2, 2, (0, 0))),
        View("lrp", DOG, one_hot(2, 2, (0, 0)) / 4),
        View("rollout", None, one_hot(2, 2, (0, 0)) * 9),
    )
    own = [view.strength.max() for view in scaled(sheet, shared=False).views]
    shared = [view.strength.max() for view in scaled(sheet, shared=True).views]
    assert own == [1, 1, 1]
    assert shared == [1, 0.25, 1]


def said(sheet: Sheet, **look: object) -> list[str]:
    marks = image_figure(sheet, Look(**look)).marks  # type: ignore[arg-type]
    return [mark.text for mark in marks if isinstance(mark, Writing)]


def test_the_scale_stands_in_the_picture() -> None:
    one, quarter = View("lrp", CAT, one_hot(2, 2, (0, 0))), View("lrp", DOG, np.eye(2) / 4)
    assert {"0", "1"} <= set(said(image_sheet(one)))
    assert {"least", "most", "0 to 1", "0 to 0.25"} <= set(said(image_sheet(one, quarter)))
    assert {"0", "1"} <= set(said(image_sheet(one, quarter), shared=True))
    signed = View("lrp", CAT, one_hot(2, 2, (0, 0)) - one_hot(2, 2, (1, 1)) * 2)
    assert {"-2", "2", "for", "against", "0"} <= set(said(image_sheet(signed)))


def test_scores_beyond_the_colours_are_told() -> None:
    scores = np.linspace(0, 1, 400).reshape(20, 20)
    scores[0, 0] = 1e6
    assert any(text.startswith("> ") for text in said(image_sheet(View("lrp", CAT, scores))))


def test_a_figure_has_the_size_and_the_pixels_that_were_asked_for() -> None:
    look = Look(width=17 / 2.54, dpi=300)
    assert panels(several(), look).width == pytest.approx(17 / 2.54 * 300, abs=1)
    with pytest.raises(InputError, match="1 inches wide and has 4 columns; give it at least"):
        panels(several(), Look(width=1.0))


def test_colours_by_name() -> None:
    sheet = image_sheet(View("gradcam", CAT, np.ones((1, 1)) * 2 + np.eye(1)), size=(64, 64))
    top = np.asarray(colour_bar(1, 256, map_colours(False, "viridis"), signed=False))
    assert top[0, 0].tolist() == [253, 231, 37]
    assert top[-1, 0].tolist() == [68, 1, 84]
    assert (np.asarray(panels(sheet, Look(colours="viridis"))) == top[0, 0]).all(-1).any()
    assert not (np.asarray(panels(sheet)) == top[0, 0]).all(-1).any()
    with pytest.raises(InputError, match=r"no colours 'virids'.*viridis"):
        panels(sheet, Look(colours="virids"))
    with pytest.raises(InputError, match="'RdBu_r' do not fit this image by gradcam; try viridis"):
        panels(sheet, Look(colours="RdBu_r"))
    signed = image_sheet(View("lrp", CAT, np.array([[-1.0, 1.0]])), size=(64, 64))
    with pytest.raises(InputError, match="'viridis' do not fit a signed map by lrp; try coolwarm"):
        panels(signed, Look(colours="viridis"))


def test_tables_agree_with_matplotlib() -> None:
    """To 3 of 255: straight lines between a few stops."""
    colormaps = pytest.importorskip("matplotlib").colormaps
    for name in NAMES:
        found = table(name)
        whole = colormaps[name](np.arange(256))[:, :3] * 255
        at = np.linspace(0, 255, len(found))
        wanted = np.stack([np.interp(at, np.arange(256), whole[:, i]) for i in range(3)], 1)
        assert np.abs(found - wanted).max() <= 3, name


def test_a_regression_shows_its_value() -> None:
    value = ClassScore(0, "stars", 3.14159, None)
    assert value.number == "3.14"
    one, other = (heading_pixels("stars", logit=logit, probability=None) for logit in (3.0, 4.0))
    assert (one != other).any()


def test_hundreds_of_classes() -> None:
    scores = [ClassScore(i, f"class {i}", float(-i), 1 / 300) for i in range(300)]
    views = [View(m, score, np.eye(2)) for m in ("lrp", "gradcam") for score in scores]
    picture = panels(image_sheet(*views, size=(8, 8), classes=scores), SCREEN, side=8)
    assert picture.height > 300 * 8
    wrapped = panels(image_sheet(*views[:300], size=(8, 8), classes=scores), SCREEN, side=8)
    assert wrapped.width < 300 * 8 < wrapped.height * 5
