"""Pictures and pages that explain: overlays, panels, coloured words, self-contained HTML."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from whyformer.explanation import Explanation
from whyformer.render.fragment import html_fragment
from whyformer.render.image import overlay
from whyformer.render.look import Look
from whyformer.render.pages import text_picture
from whyformer.render.panels import panels
from whyformer.render.saving import png, save
from whyformer.render.sheet import Sheet, View
from whyformer.render.sheets import make_sheet
from whyformer.render.terminal import has_colour, to_terminal

__all__ = [
    "Look",
    "Sheet",
    "View",
    "html_fragment",
    "make_sheet",
    "overlay",
    "panels",
    "png",
    "save",
    "show",
    "text_picture",
    "to_terminal",
]


def show(explanations: Explanation | Sequence[Explanation], *, sample: int = 0) -> None:
    """Print explanations of one input to the terminal."""
    width = shutil.get_terminal_size().columns
    print(to_terminal(make_sheet(explanations, sample), colour=has_colour(), width=width))
