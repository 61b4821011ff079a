"""Tables of gradients by the names that options give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyformer.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from whyformer.engine import Table


def gradient_table(name: str) -> Table:
    from whyformer.engine import GRADIENTS

    if name not in GRADIENTS:
        raise UnknownNameError(f"unknown gradient {name!r}; {nearest(name, GRADIENTS)}")
    return GRADIENTS[name]
