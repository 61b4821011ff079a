"""A map over an image: patches, contours, colours, and strengths from scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from sheets import CAT, canvas, image_sheet, one_hot
from whyformer.render.colour import AGAINST, scale
from whyformer.render.image import DIMMED, colour_bar, overlay, stretched
from whyformer.render.palettes import map_colours
from whyformer.render.panels import panels
from whyformer.render.sheet import View

STRONGEST = scale()[-1].tolist()


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


def test_a_frame_of_a_video_does_not_colour_the_next() -> None:
    share = np.array([[0.0, 1.0, 0.0, 0.0]])
    heat = stretched(share, (80, 10), frames=2)
    assert heat[:, 40:].max() == 0
    np.testing.assert_array_equal(heat[:, :40], stretched(share[:, :2], (40, 10)))
    assert stretched(share, (80, 10))[:, 40:].max() > 0.4


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
