"""Colours that order themselves: lightness rises evenly, and no pair relies on red and green.

Scales are laid out in OKLCh (Ottosson 2020), where equal steps look equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

#: lightness, chroma, hue in degrees: from night blue over magenta and orange to pale yellow
HEAT = ((0.16, 0.07, 285), (0.36, 0.16, 310), (0.56, 0.21, 0), (0.76, 0.17, 50), (0.96, 0.10, 100))
#: what spoke against the class, over an image
AGAINST = (0x34, 0x8A, 0xD6)
#: from paper to ink, for words: blue, orange, green-blue, purple tell classes apart
INKS = (
    ((1.0, 0.0, 250), (0.80, 0.10, 248), (0.45, 0.14, 255)),
    ((1.0, 0.0, 70), (0.82, 0.13, 68), (0.56, 0.15, 48)),
    ((1.0, 0.0, 175), (0.82, 0.09, 178), (0.48, 0.09, 190)),
    ((1.0, 0.0, 330), (0.80, 0.10, 330), (0.47, 0.16, 328)),
)
#: for maps that belong to no class
PLAIN = ((1.0, 0.0, 0), (0.80, 0.0, 0), (0.50, 0.0, 0))
STEPS = 256

Stops = tuple[tuple[float, float, float], ...]


@cache
def scale(stops: Stops = HEAT) -> np.ndarray:
    """(256, 3) bytes from the first stop to the last."""
    points = np.asarray(stops, float)
    lightness, chroma = points[:, 0], points[:, 1]
    hue = np.unwrap(points[:, 2], period=360)
    at = np.linspace(0, len(stops) - 1, STEPS)
    knots = np.arange(len(stops))
    L, C, h = (np.interp(at, knots, values) for values in (lightness, chroma, hue))
    for _ in range(40):
        colours = oklch_to_srgb(L, C, h)
        outside = ((colours < 0) | (colours > 1)).any(1)
        if not outside.any():
            break
        C = np.where(outside, C * 0.95, C)
    return (colours.clip(0, 1) * 255).round().astype(np.uint8)


def coloured(strength: np.ndarray, stops: Stops = HEAT) -> np.ndarray:
    """Strengths from 0 to 1 as bytes of colour, (..., 3)."""
    return scale(stops)[(strength.clip(0, 1) * (STEPS - 1)).round().astype(int)]


def ink(number: int) -> Stops:
    """The scale of the n-th class of a text; they come round again."""
    return INKS[number % len(INKS)]


def readable_on(colour: np.ndarray) -> tuple[int, int, int]:
    """Black or white, whichever stands out more (WCAG's contrast)."""
    light = relative_luminance(colour)
    return (255, 255, 255) if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else (0, 0, 0)


def relative_luminance(colour: np.ndarray) -> float:
    linear = np.asarray(colour, float) / 255
    linear = np.where(linear <= 0.04045, linear / 12.92, ((linear + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def hexadecimal(colour: Iterable[int]) -> str:
    return "#" + "".join(f"{int(part):02x}" for part in colour)


def in_terminal(text: str, ground: Iterable[int], letter: Iterable[int]) -> str:
    """A text in colour, as terminals read it."""
    codes = f"48;2;{';'.join(map(str, ground))};38;2;{';'.join(map(str, letter))}"
    return f"\033[{codes}m{text}\033[0m"


def colour_stops(colours: np.ndarray, count: int = 17) -> list[str]:
    """Evenly spaced colours of a scale, enough for straight lines between them."""
    return [hexadecimal(colours[i]) for i in np.linspace(0, len(colours) - 1, count).astype(int)]


def oklch_to_srgb(L: np.ndarray, C: np.ndarray, h: np.ndarray) -> np.ndarray:
    a, b = C * np.cos(np.radians(h)), C * np.sin(np.radians(h))
    to_cones = np.array(
        [
            [1, 0.3963377774, 0.2158037573],
            [1, -0.1055613458, -0.0638541728],
            [1, -0.0894841775, -1.2914855480],
        ]
    )
    to_rgb = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = ((np.stack([L, a, b], -1) @ to_cones.T) ** 3) @ to_rgb.T
    bright = 1.055 * np.abs(linear) ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, 12.92 * linear, bright)
