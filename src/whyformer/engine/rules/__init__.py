"""The equations, each a frozen object, and the tables that choose among them."""

from whyformer.engine.rules.tables import (
    ATTNLRP,
    BUILT_IN,
    CP,
    DEFAULT_PRESET,
    GRADIENT,
    GRADIENTS,
    LIBRA,
    PRESETS,
    Conventions,
    Preset,
    Table,
    get_preset,
    register_preset,
)

__all__ = [
    "ATTNLRP",
    "BUILT_IN",
    "CP",
    "DEFAULT_PRESET",
    "GRADIENT",
    "GRADIENTS",
    "LIBRA",
    "PRESETS",
    "Conventions",
    "Preset",
    "Table",
    "get_preset",
    "register_preset",
]
