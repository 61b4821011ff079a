"""Record a model's own forward, then run gradient and relevance back through it.

The engine imports torch and knows no model classes.
"""

from whyformer.engine.forward import Forward
from whyformer.engine.operations import Scratch
from whyformer.engine.rules import PRESETS, Preset, Rules
from whyformer.engine.trace import Trace, record

__all__ = ["PRESETS", "Forward", "Preset", "Rules", "Scratch", "Trace", "record"]
