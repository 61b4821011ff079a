"""Record a model's own forward, then run any table of rules back through it.

The engine imports torch and knows no model classes.
"""

from whyformer.engine.forward import Forward
from whyformer.engine.rolling import RollOut, carry
from whyformer.engine.rules import GRADIENT, GRADIENTS, PRESETS, Conventions, Preset, Table
from whyformer.engine.trace import Start, Trace, record

__all__ = [
    "GRADIENT",
    "GRADIENTS",
    "PRESETS",
    "Conventions",
    "Forward",
    "Preset",
    "RollOut",
    "Start",
    "Table",
    "Trace",
    "carry",
    "record",
]
