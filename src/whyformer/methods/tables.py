"""Tables of gradients by the names that options give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.errors import InputError, UnknownNameError, nearest

if TYPE_CHECKING:
    from whyformer.engine import Table


def gradient_table(given: Table | str) -> Table:
    """The table of that name; a table is taken as it is."""
    from whyformer.engine import GRADIENTS, Table

    if isinstance(given, Table):
        return given
    if not isinstance(given, str):
        raise InputError(
            f"gradient is {given!r}; expected the name of a table, such as 'libra', or a Table"
        )
    if given not in GRADIENTS:
        raise UnknownNameError(f"unknown gradient {given!r}; {nearest(given, GRADIENTS)}")
    return GRADIENTS[given]
