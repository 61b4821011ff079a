"""Ask any Transformer why: class-specific relevance for unmodified models."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from whyformer.errors import (
    InputError,
    MethodError,
    ModelError,
    NumericalError,
    OutputError,
    TargetError,
    UnknownNameError,
    WhyformerError,
)
from whyformer.methods import Method, methods, methods_from, register

if TYPE_CHECKING:
    from whyformer.engine.rules import register_preset
    from whyformer.evaluation import evaluate
    from whyformer.explainer import Explainer
    from whyformer.explanation import Blocks, Explanation, Part
    from whyformer.finetuning import finetune
    from whyformer.models.loading import load
    from whyformer.models.pipeline import Pipeline
    from whyformer.recording import Recording
    from whyformer.targets import contrast

__version__ = "0.1.0"

_HOMES = {
    "Explainer": "explainer",
    "Recording": "recording",
    "Explanation": "explanation",
    "Blocks": "explanation",
    "Pipeline": "models.pipeline",
    "load": "models.loading",
    "evaluate": "evaluation",
    "finetune": "finetuning",
    "register_preset": "engine.rules",
    "Part": "explanation",
    "contrast": "targets",
}

__all__ = [
    "Blocks",
    "Explainer",
    "Explanation",
    "InputError",
    "Method",
    "MethodError",
    "ModelError",
    "NumericalError",
    "OutputError",
    "Part",
    "Pipeline",
    "Recording",
    "TargetError",
    "UnknownNameError",
    "WhyformerError",
    "contrast",
    "evaluate",
    "finetune",
    "load",
    "methods",
    "methods_from",
    "register",
    "register_preset",
]


def __getattr__(name: str) -> Any:
    """Import on first use, so that ``import whyformer`` does not load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'whyformer' has no attribute {name!r}")
    return getattr(importlib.import_module(f"whyformer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
