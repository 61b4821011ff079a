"""How things are drawn: what a caller may choose."""

from __future__ import annotations

from dataclasses import dataclass

from whyformer.render.figure import UNITS_AN_INCH


@dataclass(frozen=True)
class Look:
    """How maps and words are drawn.

    ``opacity``, ``smooth`` and ``contour`` are ``overlay``'s. ``shared``: one scale for all classes
    of a method, rather than one for each map. ``colours``: one of matplotlib's names, such as
    "magma", "Blues" or "RdBu_r". ``width``: the figure's, in inches. ``dpi``: a picture's pixels an
    inch. ``fragment``: LaTeX without a preamble, for a document's input. ``cropped``: only what the
    model saw of a photo, rather than a frame around it.
    """

    opacity: float = 0.85
    smooth: bool = True
    contour: float | None = None
    shared: bool = False
    colours: str | None = None
    width: float | None = None
    dpi: int = 192
    fragment: bool = False
    cropped: bool = False

    @property
    def reduction(self) -> float:
        """On paper of a given width type is smaller than on a screen: words 9.6 pt high, not 13."""
        return 1.0 if self.width is None else 0.75

    @property
    def units(self) -> float | None:
        """The width to lay out, before it is reduced."""
        return None if self.width is None else self.width * UNITS_AN_INCH / self.reduction

    @property
    def zoom(self) -> float:
        """Pixels a unit of the layout."""
        return self.dpi * self.reduction / UNITS_AN_INCH


USUAL = Look()
