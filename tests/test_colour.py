"""Colours keep their order for every eye, and letters on them can be read."""

from __future__ import annotations

import numpy as np
import pytest

from whyformer.render.colour import (
    HEAT,
    INKS,
    PLAIN,
    Stops,
    coloured,
    hexadecimal,
    ink,
    oklch_to_srgb,
    readable_on,
    scale,
)

#: how linear RGB looks with red or green cones missing (Machado, Oliveira, Fernandes 2009)
EYES = {
    "typical": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
#: linear sRGB to XYZ, divided by the white point D65
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
) / np.array([[0.95047], [1.0], [1.08883]])
SCALES = [HEAT, PLAIN, *INKS]


def linear(colours: np.ndarray) -> np.ndarray:
    share = np.asarray(colours, float) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def seen(colours: np.ndarray, eye: str) -> np.ndarray:
    """CIELAB of sRGB bytes as an eye sees them."""
    light = (linear(colours) @ EYES[eye].T).clip(0, 1) @ TO_XYZ.T
    f = np.where(light > (6 / 29) ** 3, np.cbrt(light), light / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack(
        [116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1
    )


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    """WCAG 2's ratio of two colours."""
    bright, dark = sorted(
        (float(linear(c) @ (0.2126, 0.7152, 0.0722)) for c in (one, other)), reverse=True
    )
    return (bright + 0.05) / (dark + 0.05)


def test_the_conversion_agrees_with_known_colours() -> None:
    """Guards this file's own arithmetic: mid grey, pure red, white."""
    lab = seen(np.array([[119, 119, 119], [255, 0, 0], [255, 255, 255]]), "typical")
    expected = [[50.03, 0, 0], [53.24, 80.09, 67.20], [100, 0, 0]]
    np.testing.assert_allclose(lab, expected, atol=0.05)


@pytest.mark.parametrize(
    ("eye", "uneven"), [("typical", 0.3), ("deuteranopia", 0.3), ("protanopia", 0.5)]
)
def test_heat_rises_in_lightness_nearly_evenly(eye: str, uneven: float) -> None:
    """Reds look dark without red cones: there the middle of the scale rises more slowly."""
    lightness = seen(scale(HEAT), eye)[:, 0]
    assert lightness[0] < 10
    assert lightness[-1] > 90
    assert (np.diff(lightness) > 0).all()
    steps = np.diff(lightness[::17])  # coarse, so that rounding to bytes does not count
    assert len(steps) == 15
    np.testing.assert_allclose(steps / steps.mean(), 1, atol=uneven)


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("stops", [PLAIN, *INKS])
def test_ink_darkens_all_the_way(stops: Stops, eye: str) -> None:
    lightness = seen(scale(stops), eye)[:, 0]
    assert lightness[0] > 99
    assert (np.diff(lightness[::8]) < 0).all()


@pytest.mark.parametrize("eye", EYES)
def test_the_first_two_classes_are_told_apart(eye: str) -> None:
    """From a third of full strength on, by far more than a just noticeable difference (2.3)."""
    first, second = (seen(scale(ink(number)), eye) for number in (0, 1))
    apart = np.linalg.norm(first - second, axis=-1)
    assert apart[0] == 0
    assert apart[85:].min() > 10
    assert apart[170:].min() > 25


@pytest.mark.parametrize("stops", SCALES)
def test_every_colour_is_within_the_gamut(stops: Stops) -> None:
    """What was asked for in OKLCh is what the bytes say: nothing was clipped but chroma."""
    wanted = np.interp(
        np.linspace(0, 1, 256), np.linspace(0, 1, len(stops)), [stop[0] for stop in stops]
    )
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    found = np.cbrt(linear(scale(stops)) @ cones.T) @ (0.2104542553, 0.7936177850, -0.0040720468)
    np.testing.assert_allclose(found, wanted, atol=0.01)


def test_oklch_of_known_colours() -> None:
    """White, black and pure red (Ottosson's own numbers)."""
    lightness = np.array([1.0, 0.0, 0.627955])
    chroma = np.array([0.0, 0.0, 0.257683])
    hue = np.array([0.0, 0.0, 29.2339])
    expected = [[1, 1, 1], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_allclose(oklch_to_srgb(lightness, chroma, hue), expected, atol=2e-3)


@pytest.mark.parametrize("stops", SCALES)
def test_letters_can_be_read_on_every_colour(stops: Stops) -> None:
    for colour in scale(stops):
        letters = np.array(readable_on(colour))
        assert contrast(letters, colour) >= 4.5, hexadecimal(colour)


def test_strengths_take_the_colours_in_order() -> None:
    ends = coloured(np.array([0.0, 1.0, -3.0, 7.0]))
    assert ends.tolist() == [scale()[i].tolist() for i in (0, 255, 0, 255)]
    assert coloured(np.zeros((2, 5))).shape == (2, 5, 3)


def test_inks_come_round_again() -> None:
    assert len({ink(number) for number in range(len(INKS))}) == len(INKS)
    assert ink(len(INKS) + 1) == ink(1)


def test_hexadecimal() -> None:
    assert hexadecimal((0, 10, 255)) == "#000aff"
