"""Colour maps by matplotlib's names, and which colours a view gets.

viridis, magma and inferno are van der Walt's and Smith's (CC0); coolwarm is Moreland's; the others
are Brewer's. Each is embedded as a few stops with straight lines between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from whyformer.errors import InputError, nearest
from whyformer.render.colour import AGAINST, HEAT, INKS, STEPS, Stops, colour_stops, scale
from whyformer.render.sheet import Sheet

#: from dark to light, for images
GLOWS = {
    "viridis": """
        440154 470d60 48186a 482374 472d7b 453681 424086 3f4989 3b528b 375a8d 33638d 2f6a8e
        2c728e 297a8e 26818e 23898e 21908c 1f988b 1f9f88 21a685 28ae80 31b57b 3ebc74 4cc26c
        5dc963 6ece58 82d34c 96d83f abdc32 c0df24 d5e21a eae51a fde725
    """,
    "magma": """
        000004 0a0822 1d1146 36106a 50127c 691c81 822681 9c2e7f b63779 cf4170 e65163 f5695c
        fb8761 fea571 fec387 fde0a2 fcfdbf
    """,
    "inferno": """
        000004 040312 0b0724 150b37 210c4a 2e0a5a 3c0965 4a0c6b 57106d 63146e 70196e 7d1e6d
        89226a 962766 a32b61 af315c bb3755 c63e4d d14644 db4f3b e35932 eb6528 f1711e f67f14
        f98d0a fb9c06 fcab0f fbba1f f9ca32 f5d949 f2e865 f3f586 fcffa4
    """,
}
#: from paper to ink, for images and texts
INKED = {
    "Blues": "f7fbff deebf7 c6dbef 9ecae1 6baed6 4292c6 2171b5 08519c 08306b",
    "Greens": "f7fcf5 e5f5e0 c7e9c0 a1d99b 74c476 41ab5d 238b45 006d2c 00441b",
    "Greys": "ffffff f0f0f0 d9d9d9 bdbdbd 969696 737373 525252 252525 000000",
    "Oranges": "fff5eb fee6ce fdd0a2 fdae6b fd8d3c f16913 d94801 a63603 7f2704",
    "Purples": "fcfbfd efedf5 dadaeb bcbddc 9e9ac8 807dba 6a51a3 54278f 3f007d",
    "Reds": "fff5f0 fee0d2 fcbba1 fc9272 fb6a4a ef3b2c cb181d a50f15 67000d",
}
#: from against over nothing to for, where a method is signed
DIVERGING = {
    "coolwarm": """
        3b4cc0 445acc 4d68d7 5775e1 6282ea 6c8ef1 779af7 82a5fb 8db0fe 98b9ff a3c2fe aec9fc
        b8d0f9 c2d5f4 ccd9ee d5dbe6 dddddd e5d8d1 ecd3c5 f1ccb9 f4c4ad f7bba0 f7b194 f7a687
        f49a7b f18d6f ec7f63 e57058 de604d d55042 cb3e38 c0282f b40426
    """,
    "PuOr_r": "2d004b 542788 8073ac b2abd2 d8daeb f7f6f6 fee0b6 fdb863 e08214 b35806 7f3b08",
    "RdBu_r": "053061 2166ab 4393c3 92c5de d1e5f0 f7f7f6 fddbc7 f4a582 d6604d b2182b 67001f",
}
NAMES = (*GLOWS, *INKED, *DIVERGING)


@dataclass(frozen=True, eq=False)
class Colours:
    """What strengths look like: bytes from 0 to 1, and from 0 to -1."""

    towards: np.ndarray
    against: np.ndarray

    def of(self, strength: np.ndarray) -> np.ndarray:
        """Strengths from -1 to 1 as bytes of colour, (..., 3)."""
        at = (np.abs(strength).clip(0, 1) * (STEPS - 1)).round().astype(int)
        return np.where((strength < 0)[..., None], self.against[at], self.towards[at])


@cache
def table(name: str) -> np.ndarray:
    """(256, 3) bytes; a diverging map has twice as many."""
    stops = {**GLOWS, **INKED, **DIVERGING}[name].split()
    points = np.array([[int(stop[i : i + 2], 16) for i in (0, 2, 4)] for stop in stops], float)
    count = 2 * STEPS if name in DIVERGING else STEPS
    at = np.linspace(0, len(stops) - 1, count)
    parts = [np.interp(at, np.arange(len(stops)), points[:, i]) for i in range(3)]
    return np.stack(parts, 1).round().astype(np.uint8)


@cache
def map_colours(signed: bool, name: str | None = None) -> Colours:
    """An image's colours: heat, and blue for what spoke against."""
    against = np.broadcast_to(np.array(AGAINST, np.uint8), (STEPS, 3))
    if signed and name in DIVERGING:
        return _halves(name)
    if not signed and name in (*GLOWS, *INKED):
        return Colours(table(name), against)
    return Colours(scale(HEAT), against)


def word_colours(signed: bool, stops: Stops, name: str | None = None) -> Colours:
    """A text's colours: of its class, or orange for and blue against where they are signed."""
    if signed and name in DIVERGING:
        return _halves(name)
    if signed:
        return Colours(scale(INKS[1]), scale(INKS[0]))
    towards = table(name) if name in INKED else scale(stops)
    return Colours(towards, towards)


@cache
def for_and_against() -> Colours:
    """Blue for what speaks for a word that was written, orange for what speaks against it."""
    return Colours(scale(INKS[0]), scale(INKS[1]))


def _halves(name: str) -> Colours:
    both = table(name)
    return Colours(both[STEPS:], both[STEPS - 1 :: -1])


def check_name(name: str) -> str:
    if name not in NAMES:
        raise InputError(f"no colours {name!r}; {nearest(name, NAMES)}")
    return name


def check_colours(name: str | None, sheet: Sheet) -> None:
    """A name that fits none of the views is refused, rather than ignored."""
    if name is None or any(_fits(check_name(name), part) for part in sheet.parts):
        return
    view = sheet.views[0]
    wanted = " or ".join(DIVERGING if view.signed else _plain(sheet))
    what = "a signed map" if view.signed else f"this {sheet.kind}"
    raise InputError(f"the colours {name!r} do not fit {what} by {view.method}; try {wanted}")


def _fits(name: str, sheet: Sheet) -> bool:
    return any(name in (DIVERGING if view.signed else _plain(sheet)) for view in sheet.views)


def _plain(sheet: Sheet) -> tuple[str, ...]:
    return tuple(INKED) if sheet.image is None else (*GLOWS, *INKED)


def page_colours(name: str | None) -> dict[str, Any]:
    """What the page is told about chosen colours: ``diverging`` is for and against."""
    if name is None:
        return {}
    if name in DIVERGING:
        halves = _halves(name)
        return {"diverging": [colour_stops(halves.towards), colour_stops(halves.against)]}
    stops = colour_stops(table(name))
    return {"heat": stops, "inks": stops} if name in INKED else {"heat": stops}
