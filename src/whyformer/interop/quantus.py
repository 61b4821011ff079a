"""whyformer's methods for Quantus: ``explain_func`` of every metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from whyformer.engine.rules import DEFAULT_PRESET
from whyformer.explainer import Explainer
from whyformer.interop.shapes import Logits, as_explainer, at_inputs, explain
from whyformer.methods import DEFAULT_METHOD

__all__ = ["Logits", "explain_func"]


def explain_func(
    model: nn.Module | Explainer,
    inputs: np.ndarray,
    targets: np.ndarray,
    *,
    method: str = DEFAULT_METHOD,
    preset: str = DEFAULT_PRESET,
    device: str | None = None,
    **options: Any,
) -> np.ndarray:
    """Relevance as Quantus wants it: (batch, 1, height, width) for images.

    ``method``, ``preset`` and a method's options come from ``explain_func_kwargs``. Sequences of
    features get relevance in their own shape. ``device`` is Quantus's own; the model says where it
    lives.
    """
    given = torch.as_tensor(np.asarray(inputs))
    asked = torch.as_tensor(np.asarray(targets)).flatten().long()
    explanation = explain(as_explainer(model), given, asked, method, preset, **options)
    found = at_inputs(explanation, given)
    if explanation.grid is not None:
        found = found.sum(1, keepdim=True)
    return found.cpu().double().numpy()
