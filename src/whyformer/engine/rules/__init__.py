"""The equations, each a frozen object, and the tables that choose among them."""

from whyformer.engine.rules.tables import (
    ATTNLRP,
    BUILT_IN,
    CP,
    GRADIENT,
    GRADIENTS,
    LIBRA,
    PRESETS,
    Conventions,
    Preset,
    Table,
    register_preset,
)

__all__ = [
    "ATTNLRP",
    "BUILT_IN",
    "CP",
    "GRADIENT",
    "GRADIENTS",
    "LIBRA",
    "PRESETS",
    "Conventions",
    "Preset",
    "Table",
    "register_preset",
]
