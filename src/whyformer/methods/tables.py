"""Tables of gradients by the names that options give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from whyformer.engine import Table


def gradient_table(given: Table | str) -> Table:
    """The table of that name; a table is taken as it is."""
    from whyformer.engine import GRADIENTS

    if not isinstance(given, str):
        return given
    if given not in GRADIENTS:
        raise UnknownNameError(f"unknown gradient {given!r}; {nearest(given, GRADIENTS)}")
    return GRADIENTS[given]
