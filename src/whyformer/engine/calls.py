"""What is called, by whom, and on whose values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor

from whyformer.engine.following import carried
from whyformer.engine.mixing import Contraction, Product
from whyformer.engine.operations import Operation


def function_name(func: Callable[..., Any]) -> str:
    name: str = getattr(func, "__name__", "")
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", name))
    return name.partition(".")[0] or repr(func)


def caller() -> str:
    """The line of the model's code that made a call."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("torch", "whyformer.engine")):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"


def crossed(operation: Operation, operands: tuple[Tensor, ...]) -> bool:
    """Whether one sample's value meets another's: their axes of samples are not the same."""
    places = set()
    for operand in operands:
        samples = carried(operand)
        if samples is None or samples.axis is None:
            continue
        place = samples.axis - operand.ndim
        if isinstance(operation, Product) and not isinstance(operation, Contraction) and place > -3:
            return True
        places.add((place, len(samples.ids)))
    return len(places) > 1 and not isinstance(operation, Contraction)
