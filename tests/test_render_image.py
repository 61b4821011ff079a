"""A map over an image shows what was measured, where it was measured, and nothing else."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from sheets import CAT, DOG, image_sheet, one_hot
from whyformer import InputError
from whyformer.render.colour import AGAINST, scale
from whyformer.render.figure import Writing, wrapped
from whyformer.render.fonts import base_face, text_width
from whyformer.render.image import DIMMED, colour_bar, enlarged, overlay, stretched
from whyformer.render.look import Look
from whyformer.render.palettes import NAMES, map_colours, table
from whyformer.render.panels import image_figure, panels
from whyformer.render.scaling import scaled
from whyformer.render.sheet import ClassScore, Sheet, View

GREY = (150, 150, 150)
PAPER = [255, 255, 255]
STRONGEST = scale()[-1].tolist()
SCREEN = Look(dpi=96)


def canvas(size: tuple[int, int] = (60, 30), colour: tuple[int, int, int] = GREY) -> Image.Image:
    return Image.new("RGB", size, colour)


def drawn(image: Image.Image, strength: np.ndarray, **look: object) -> np.ndarray:
    return np.asarray(overlay(image, strength, **look)).astype(int)  # type: ignore[arg-type]


# --- overlay -------------------------------------------------------------------------------------


@pytest.mark.parametrize("smooth", [True, False])
def test_where_nothing_spoke_the_picture_is_dimmed_and_untinted(smooth: bool) -> None:
    pixels = drawn(canvas(), np.zeros((1, 1)), opacity=1.0, smooth=smooth)
    assert (pixels == pixels[0, 0]).all()
    assert np.ptp(pixels[0, 0]) == 0
    assert pixels[0, 0, 0] == pytest.approx(150 * (1 - DIMMED), abs=1)


def test_no_opacity_leaves_the_picture_alone() -> None:
    image = canvas(colour=(90, 160, 200))
    pixels = drawn(image, np.ones((2, 3)), opacity=0.0)
    np.testing.assert_array_equal(pixels, np.asarray(image))


def test_the_strongest_patch_gets_the_strongest_colour() -> None:
    strength = np.linspace(0, 1, 12).reshape(3, 4)
    pixels = drawn(canvas((80, 60)), strength, opacity=1.0, smooth=False)
    middles = pixels[10::20, 10::20]
    assert middles[2, 3].tolist() == STRONGEST
    brightness = middles.sum(-1).flatten()
    assert brightness.argmax() == 11


def test_stronger_is_more_opaque() -> None:
    """What is left of the picture: the difference that another ground makes."""
    strength = np.linspace(0, 1, 6).reshape(1, 6)
    dark, light = (
        drawn(canvas((60, 10), (level,) * 3), strength, opacity=0.8, smooth=False)[5, 5::10, 0]
        for level in (60, 200)
    )
    left = light - dark
    assert (np.diff(left) < 0).all()
    assert left[-1] == pytest.approx(140 * (1 - DIMMED * 0.8) * 0.2, abs=2)


def test_patches_are_crisp_on_a_grid_that_is_not_square() -> None:
    """3x4 patches of 15x10 pixels: grid lines aside, exactly one rectangle is coloured."""
    pixels = drawn(canvas((60, 30)), one_hot(3, 4, (1, 2)), opacity=1.0, smooth=False)
    inside = np.zeros((30, 60), bool)
    inside[10:20, 30:45] = True
    between = np.ones((30, 60), bool)
    between[[10, 20], :] = False
    between[:, [15, 30, 45]] = False
    assert (pixels[inside & between] == STRONGEST).all()
    ground = pixels[0, 0]
    assert (pixels[~inside & between] == ground).all()
    assert (pixels[~between] > np.minimum(pixels[between].min(0), ground)).all()


@pytest.mark.parametrize("size", [(97, 53), (31, 64), (7, 5)])
def test_grid_lines_lie_on_the_borders_of_patches(size: tuple[int, int]) -> None:
    """A patch reaches from its line to the pixel before the next one, whatever the size."""
    rows, columns = 3, 4
    pixels = drawn(canvas(size), one_hot(rows, columns, (1, 2)), opacity=1.0, smooth=False)
    red = pixels[..., 0]
    top, bottom = round(size[1] / rows), round(2 * size[1] / rows)
    left, right = round(2 * size[0] / columns), round(3 * size[0] / columns)
    coloured = red[top + 1 : bottom, left + 1 : right]
    assert (coloured == STRONGEST[0]).all()
    assert red[top + 1, left - 1] < STRONGEST[0]
    assert red[top + 1, min(right + 1, size[0] - 1)] < STRONGEST[0]
    assert red[top - 1, left + 1] < STRONGEST[0]
    assert red[bottom + 1, left + 1] < STRONGEST[0]


def test_a_smooth_map_peaks_in_the_middle_of_its_patch_and_has_no_grid() -> None:
    pixels = drawn(canvas((90, 90)), one_hot(3, 3, (1, 1)), opacity=1.0)
    brightness = pixels.sum(-1)
    y, x = np.unravel_index(brightness.argmax(), brightness.shape)
    assert abs(y - 45) <= 2
    assert abs(x - 45) <= 2
    np.testing.assert_array_equal(brightness, brightness[::-1, ::-1])
    assert brightness[45, 45] > brightness[45, 62] > brightness[45, 75]


def mixed_neighbourhoods(inside: np.ndarray) -> np.ndarray:
    """Pixels that have both kinds among themselves and their eight neighbours."""
    padded = np.pad(inside, 1, mode="edge")
    height, width = inside.shape
    around = np.stack([padded[y : y + height, x : x + width] for y in range(3) for x in range(3)])
    return around.any(0) & ~around.all(0)


@pytest.mark.parametrize("level", [0.25, 0.5, 1.0])
def test_a_contour_encloses_exactly_what_is_above_the_level(level: float) -> None:
    strength = np.array([[0.0, 0.3, 0.0, 0.0], [0.0, 0.6, 1.0, 0.0], [0.2, 0.0, 0.0, 0.3]])
    pixels = drawn(canvas((80, 60)), strength, smooth=False, contour=level)
    inside = np.kron(strength >= level, np.ones((20, 20), bool))
    white = (pixels == 255).all(-1)
    np.testing.assert_array_equal(white, mixed_neighbourhoods(inside))


def test_a_contour_has_a_dark_seam_on_light_ground() -> None:
    look = {"opacity": 0.0, "smooth": False, "contour": 0.5}
    row = drawn(canvas((60, 60), (255, 255, 255)), one_hot(3, 3, (1, 1)), **look)[30].sum(-1)
    assert (row[19:21] == 765).all()
    assert (row[[17, 18, 21, 22]] < 100).all()


@pytest.mark.parametrize("level", [0.0, 1.1])
def test_a_contour_around_all_or_nothing_is_no_line(level: float) -> None:
    strength = np.linspace(0, 1, 12).reshape(3, 4)
    bare = drawn(canvas(), strength)
    np.testing.assert_array_equal(drawn(canvas(), strength, contour=level), bare)


# --- from scores to strengths ---------------------------------------------------------------------


def strengths(scores: np.ndarray) -> np.ndarray:
    return View("lrp", CAT, scores).strength


def test_scores_span_the_scale() -> None:
    scores = np.array([[2.0, 3.0], [4.0, 6.0]])
    np.testing.assert_allclose(strengths(scores), [[0, 0.25], [0.5, 1]])


def test_an_empty_map_has_no_colour() -> None:
    scores = np.zeros((3, 4))
    assert not strengths(scores).any()
    pixels = drawn(canvas(), strengths(scores), opacity=1.0)
    assert (pixels == pixels[0, 0]).all()


def test_what_spoke_against_is_blue_over_the_image() -> None:
    share = np.array([[-1.0, 0.0, 1.0]])
    colours = map_colours(signed=True)
    pixels = drawn(canvas((60, 20)), share, opacity=1.0, smooth=False, colours=colours)
    against, nothing, towards = pixels[10, 10::20]
    assert against.tolist() == list(AGAINST)
    assert towards.tolist() == STRONGEST
    assert np.ptp(nothing) == 0


def test_a_smooth_map_is_the_one_that_is_evaluated() -> None:
    """Bilinear, as ``Explanation.image_map``: scores are stretched before colours end."""
    scores = np.random.default_rng(0).normal(size=(7, 5))
    view = View("lrp", CAT, scores)
    wanted = F.interpolate(torch.tensor(scores)[None, None], (64, 96), mode="bilinear")[0, 0]
    wanted = (wanted / view.span[1]).clamp(-1, 1).numpy()
    np.testing.assert_allclose(stretched(view.share, (96, 64)), wanted, atol=1e-5)


def test_a_signed_bar_has_both_ends_and_grey_between() -> None:
    bar = np.asarray(colour_bar(4, 101, map_colours(True), signed=True)).astype(int)
    assert bar[0, 0].tolist() == STRONGEST
    assert bar[-1, 0].tolist() == list(AGAINST)
    assert np.ptp(bar[50, 0]) <= 1


def test_what_spoke_against_the_class_is_negative() -> None:
    view = View("lrp", CAT, np.array([[-4.0, 0.0, 1.0, 2.0]]))
    assert view.signed
    assert view.span == (-4, 4)
    np.testing.assert_allclose(view.strength, [[-1, 0, 0.25, 0.5]])


def test_rounding_is_no_sign() -> None:
    view = View("rollout", None, np.array([[-1e-9, 1.0]]))
    assert not view.signed
    assert view.strength.min() == 0
    assert View("lrp", CAT, np.ones((1, 2)), signed=True).span == (-1, 1)


def test_one_patch_alone_is_the_strongest() -> None:
    found = strengths(one_hot(12, 12, (3, 4)) * 1e-9)
    np.testing.assert_array_equal(found, one_hot(12, 12, (3, 4)))


def test_an_outlier_does_not_take_the_whole_scale() -> None:
    """The top percent is as strong as it gets, so the rest keeps its differences."""
    scores = np.linspace(0, 1, 400).reshape(20, 20)
    scores[0, 0] = 1e6
    assert np.median(strengths(scores)) == pytest.approx(0.5, abs=0.02)
    assert strengths(scores)[0, 0] == 1


@pytest.mark.parametrize("scores", [np.full((3, 4), 5.0), np.zeros((3, 4)), np.ones((1, 1))])
def test_a_constant_map_is_even_and_finite(scores: np.ndarray) -> None:
    found = strengths(scores)
    assert np.isfinite(found).all()
    assert np.ptp(found) == 0
    assert panels(image_sheet(View("lrp", CAT, scores))).size


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
