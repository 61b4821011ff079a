"""Rules that share relevance out by the sizes of contributions: what is divided by is never small
because its terms cancel.

A size is the positive part (Excitation Backprop) or the absolute value (RAP, AGF). Attention is a
set of weights: what passes A V reaches the values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from whyformer.engine.operations import adjoint
from whyformer.engine.rules.division import GUARDED, Dividing, Division

if TYPE_CHECKING:
    from whyformer.engine.learned import Learned
    from whyformer.engine.matrices import Product
    from whyformer.engine.mixing import Sum
    from whyformer.engine.operations import Operation
    from whyformer.engine.reductions import Reduction

Slots = tuple[Tensor | None, ...]
Size = Callable[[Tensor], Tensor]


def positive(x: Tensor) -> Tensor:
    return x.clamp(min=0)


def absolute(x: Tensor) -> Tensor:
    return x.abs()


@dataclass(frozen=True)
class BySize:
    """Shares by the sizes of contributions."""

    size: Size
    divide: Division = GUARDED


class SizeShares(BySize):
    """u + v: R^u = s(u) / (s(u) + s(v)) R, R^v alike, s the size."""

    def __call__(self, op: Sum, relevance: Tensor) -> Slots:
        u, v = self.size(op.u), self.size(op.v)
        s = self.divide(op, relevance, u + v)
        return s * u, s * v


class SizeTerms(BySize):
    """A sum or mean over axes: each term gets its size's share."""

    def __call__(self, op: Reduction, relevance: Tensor) -> Slots:
        x = self.size(op.x)
        total = x.sum(op.axes, keepdim=op.keepdim)
        return (op.spread(self.divide(op, relevance, total)) * x,)


class ToValues(BySize):
    """A V: R^V_kd = sum_q A_qk s(V_kd) / (sum_k' A_qk' s(V_k'd)) R_qd, and nothing for A.

    Another product of two activations: by the sizes of its terms, half to each side.
    """

    def __call__(self, op: Product, relevance: Tensor) -> Slots:
        u, v = self.size(op.u), self.size(op.v)
        s = self.divide(op, relevance, op.apply(u, v))
        if op.weights == 0:
            return None, v * adjoint(lambda v: op.apply(u, v), v, s)
        if op.weights == 1:
            return u * adjoint(lambda u: op.apply(u, v), u, s), None
        left = u * adjoint(lambda u: op.apply(u, v), u, s / 2)
        return left, v * adjoint(lambda v: op.apply(u, v), v, s / 2)


# -- learned maps


class AbsoluteContributions(Dividing):
    """R_j = sum_i |x_j w_ji| / (sum_j' |x_j' w_j'i|) R_i."""

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        x, weight = op.x.abs(), op.weight.abs()
        z = op.kept("absolute", lambda: op.apply(x, weight))
        return (x * op.transpose(self.divide(op, relevance, z), weight),)


class RelativeContributions(Dividing):
    """RAP (Nam et al. 2020), c_ji = x_j w_ji: first to what excites, and to what inhibits too,

    R'_j = sum_i ([c_ji]^+ / (sum_j' [c_j'i]^+) + [-c_ji]^+ / (sum_j' |c_j'i|)) R_i,

    then R_j = R'_j - (sum R' - sum R) / #(R' != 0) where R'_j is not 0: the sums of a row agree,
    and what contributes less than the shift speaks against the class. A row is a token's
    features; of a convolution, all that a sample has.
    """

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        x_pos, x_neg = op.x.clamp(min=0), op.x.clamp(max=0)
        w_pos, w_neg = op.weight.clamp(min=0), op.weight.clamp(max=0)
        excited = op.apply(x_pos, w_pos) + op.apply(x_neg, w_neg)
        inhibited = -(op.apply(x_pos, w_neg) + op.apply(x_neg, w_pos))
        s = self.divide(op, relevance, excited)
        carried = x_pos * op.transpose(s, w_pos) + x_neg * op.transpose(s, w_neg)
        s = self.divide(op, relevance, excited + inhibited)
        carried -= x_pos * op.transpose(s, w_neg) + x_neg * op.transpose(s, w_pos)
        live = (carried != 0).to(carried)
        surplus = op.row_sum(carried) - op.row_sum(relevance)
        return (carried - live * (surplus / op.row_sum(live).clamp(min=1)),)


@dataclass(frozen=True, eq=False)
class KeepProducts:
    """The derivative; (mean over features of x g)^+ of every Linear on the way is kept."""

    products: dict[Operation, Tensor]
    whole: ClassVar[bool] = True

    def __call__(self, op: Learned, slot: Tensor) -> Slots:
        (slope,) = op.gradient(slot)
        if op.name == "linear" and slope is not None and slope.ndim > 2:
            self.products[op] = (op.x * slope).mean(-1, keepdim=True).clamp(min=0)
        return (slope,)


@dataclass(frozen=True, eq=False)
class Guided:
    """AGF (Gur et al. 2021): R = C + M - (sum M) / #(C != 0), where C is not 0.

    C is shared out by absolute contributions; M is a token's (mean over features of x g)^+,
    divided by the sample's highest. The shift keeps the sample's sum.
    """

    products: Mapping[Operation, Tensor] = field(default_factory=dict)
    whole: ClassVar[bool] = True

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        (carried,) = AbsoluteContributions()(op, relevance)
        if op not in self.products:
            return (carried,)
        samples, product, live = op.samples, self.products[op], (carried != 0).to(carried)
        guide = GUARDED(op, product, samples.highest(product)) * live
        shift = GUARDED(op, samples.total(guide), samples.total(live))
        return (carried + guide - live * shift,)
