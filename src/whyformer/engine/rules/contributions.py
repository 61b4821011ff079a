"""Rules that share relevance out by the sizes of contributions: what is divided by is never small
because its terms cancel.

A size is the positive part (Excitation Backprop) or the absolute value (RAP, AGF). Attention is a
set of weights: what passes A V reaches the values alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from whyformer.engine.operations import adjoint
from whyformer.engine.rules.division import GUARDED, Division

if TYPE_CHECKING:
    from whyformer.engine.local import Reduction
    from whyformer.engine.mixing import Product, Sum

Slots = tuple[Tensor | None, ...]
Size = Callable[[Tensor], Tensor]


def positive(x: Tensor) -> Tensor:
    return x.clamp(min=0)


def absolute(x: Tensor) -> Tensor:
    return x.abs()


@dataclass(frozen=True)
class SizeShares:
    """u + v: R^u = s(u) / (s(u) + s(v)) R, R^v alike, s the size."""

    size: Size
    divide: Division = GUARDED

    def __call__(self, op: Sum, relevance: Tensor) -> Slots:
        u, v = self.size(op.u), self.size(op.v)
        s = self.divide(op, relevance, u + v)
        return s * u, s * v


@dataclass(frozen=True)
class SizeTerms:
    """A sum or mean over axes: each term gets its size's share."""

    size: Size
    divide: Division = GUARDED

    def __call__(self, op: Reduction, relevance: Tensor) -> Slots:
        x = self.size(op.x)
        total = x.sum(op.axes, keepdim=op.keepdim)
        return (op.spread(self.divide(op, relevance, total)) * x,)


@dataclass(frozen=True)
class ToValues:
    """A V: R^V_kd = sum_q A_qk s(V_kd) / (sum_k' A_qk' s(V_k'd)) R_qd, and nothing for A.

    Another product of two activations: by the sizes of its terms, half to each side.
    """

    size: Size
    divide: Division = GUARDED

    def __call__(self, op: Product, relevance: Tensor) -> Slots:
        u, v = self.size(op.u), self.size(op.v)
        s = self.divide(op, relevance, op.apply(u, v))
        if op.weights == 0:
            return None, v * adjoint(lambda v: op.apply(u, v), v, s)
        if op.weights == 1:
            return u * adjoint(lambda u: op.apply(u, v), u, s), None
        left = u * adjoint(lambda u: op.apply(u, v), u, s / 2)
        return left, v * adjoint(lambda v: op.apply(u, v), v, s / 2)
