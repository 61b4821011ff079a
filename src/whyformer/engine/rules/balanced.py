"""Rules for gradients: the derivative, and the balanced backwards that hold parts constant.

A balanced backward is a gradient in which a few operations are treated as if part of them were a
constant, so that y = sum x . g + sum of biases times their gradients. None divides by a sum of
activations. ``cp`` is Ali et al. 2022, ``libra`` Mehri et al. 2025, ``attnlrp`` the gradient form
of Achtibat et al. 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from whyformer.engine.local import Gate, Pointwise, Softmax
    from whyformer.engine.matrices import Product
    from whyformer.engine.operations import Operation

Slots = tuple[Tensor | None, ...]


@dataclass(frozen=True)
class Derivative:
    """dL/dx, times a factor: a half keeps the sum of a product of two activations."""

    factor: float = 1.0

    def __call__(self, op: Operation, *slots: Tensor | None) -> Slots:
        found = op.gradient(*slots)
        if self.factor == 1.0:
            return found
        return tuple(None if g is None else g * self.factor for g in found)


@dataclass(frozen=True)
class ConstantAttention:
    """Attention held constant: the weights have a gradient of their own, the scores have none.

    A softmax that weighs nothing, such as one behind the logits, has its derivative.
    """

    def __call__(self, op: Softmax, slot: Tensor) -> Slots:
        return (None,) if op.attends else op.gradient(slot)


@dataclass(frozen=True)
class ConstantWeights:
    """A V where A was changed behind its softmax, as by talking heads: A as a whole is constant."""

    def __call__(self, op: Product, slot: Tensor) -> Slots:
        u, v = op.gradient(slot)
        return (None, v) if op.changed == 0 else (u, None)


@dataclass(frozen=True)
class ConstantDeviation:
    """(x - mean) / d with d constant: LayerNorm, RMSNorm and similar ones, spelled out or not."""

    def __call__(self, op: Operation, slot: Tensor) -> Slots:
        return op.constant_deviation(slot)


@dataclass(frozen=True)
class ConstantGate:
    """An activation as y = f(0) + x c, c = (f(x) - f(0)) / x held constant: Phi(x) for GELU."""

    def __call__(self, op: Pointwise, slot: Tensor) -> Slots:
        return op.constant_gate(slot)


@dataclass(frozen=True)
class HalfEach:
    """u * v: half of the derivative for each. u / v: v is held constant, as a deviation is."""

    def __call__(self, op: Gate, slot: Tensor) -> Slots:
        u, v = op.gradient(slot)
        if op.quotient:
            return u, None
        return tuple(None if g is None else g / 2 for g in (u, v))


@dataclass(frozen=True)
class OneConstant:
    """u * v with the side that an activation function made held constant; else ``HalfEach``."""

    def __call__(self, op: Gate, slot: Tensor) -> Slots:
        if op.gate is None or op.quotient:
            return HalfEach()(op, slot)
        u, v = op.gradient(slot)
        return (None, v) if op.gate == 0 else (u, None)
