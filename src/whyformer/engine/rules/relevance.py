"""Rules of relevance for what is not learned: sums, products, reductions, softmax, the rest.

Equation numbers are those of Chefer, Gur and Wolf, CVPR 2021. A rule is given the relevance of
an operation's output and returns that of its operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whyformer.engine.rules.division import GUARDED, Dividing, Division

if TYPE_CHECKING:
    from whyformer.engine.local import Autograd, Gate, Softmax
    from whyformer.engine.matrices import Product
    from whyformer.engine.mixing import Sum
    from whyformer.engine.operations import Operation
    from whyformer.engine.reductions import Reduction

Slots = tuple[Tensor | None, ...]


def ratio(numerator: Tensor, denominator: Tensor, epsilon: float = 0.0) -> Tensor:
    """A quotient of per-sample sums, 0 where the denominator is."""
    return torch.where(denominator == 0, 0, numerator / (denominator + epsilon))


@dataclass(frozen=True)
class PassOn:
    """LayerNorm, GELU, softmax, scaling: relevance passes unchanged.

    A value that is rescaled or shifted by a statistic of itself gets all of it.
    """

    def __call__(self, op: Operation, relevance: Tensor) -> Slots:
        return op.to_subject(relevance)


# -- sums


class Shares(Dividing):
    """Eq. 6 for u + v: R^u = u / (u + v) R, R^v = v / (u + v) R."""

    def __call__(self, op: Sum, relevance: Tensor) -> tuple[Tensor, Tensor]:
        s = self.divide(op, relevance, op.output)
        return s * op.u, s.mul_(op.v)


@dataclass(frozen=True)
class NormalisedShares(Dividing):
    """Eq. 6 and its normalisation, the factor in closed form.

    |sum R^u| / (|sum R^u| + |sum R^v|) * sum R / sum R^u = sign(sum R^u) sum R / (...)

    A sum of one value with itself (rotary positions: x cos + rotate(x) sin) is no meeting of two
    streams: it goes without the normalisation, and by a division of its own, as a shift of all
    positions must change nothing.
    """

    divide_own: Division = GUARDED

    def __call__(self, op: Sum, relevance: Tensor) -> tuple[Tensor, Tensor]:
        if op.one_source:
            return Shares(self.divide_own)(op, relevance)
        ru, rv = Shares(self.divide)(op, relevance)
        total, su, sv = (op.samples.total(r) for r in (relevance, ru, rv))
        factor = ratio(total, su.abs() + sv.abs())
        return ru.mul_(factor * su.sign()), rv.mul_(factor * sv.sign())


@dataclass(frozen=True)
class ReferenceShares(Dividing):
    """Eq. 6 and its normalisation, divided step by step as the authors' code does."""

    epsilon: float = 1e-9

    def __call__(self, op: Sum, relevance: Tensor) -> tuple[Tensor, Tensor]:
        ru, rv = Shares(self.divide)(op, relevance)
        if op.one_source:
            return ru, rv
        total, su, sv = (op.samples.total(r) for r in (relevance, ru, rv))
        both, e = su.abs() + sv.abs(), self.epsilon
        return (
            ru * ratio(ratio(su.abs(), both, e) * total, su, e),
            rv * ratio(ratio(sv.abs(), both, e) * total, sv, e),
        )


# -- sums and means over axes


class Terms(Dividing):
    """Eq. 6 for a sum or mean over axes: each term gets its share."""

    def __call__(self, op: Reduction, relevance: Tensor) -> tuple[Tensor]:
        return (op.spread(self.divide(op, relevance, op.total())) * op.x,)


class NormalisedTerms(Dividing):
    """Eq. 6 for many terms (mean pooling), with the normalisation of two."""

    def __call__(self, op: Reduction, relevance: Tensor) -> tuple[Tensor]:
        (r,) = Terms(self.divide)(op, relevance)
        each = op.samples.total(r, keep=op.axes)
        total = op.spread(op.samples_of_output.total(relevance), to_input=False)
        factor = ratio(total, each.abs().sum(op.axes, keepdim=True))
        return (r * (factor * each.sign()),)


# -- products


@dataclass(frozen=True)
class MatrixProduct(Dividing):
    """Eq. 6 for u v: R^u = u (R / uv) v^T, R^v = v u^T (R / uv), times ``share``.

    A half each is Eq. 6 with its normalisation, as both sums equal sum R, and AttnLRP's
    R / (2 O); one each is Eq. 6 as it stands: relevance doubles. With the stabilised division
    the sums are a little less than sum R; a half stays a half.
    """

    share: float = 0.5

    def __call__(self, op: Product, relevance: Tensor) -> tuple[Tensor, Tensor]:
        s = self.divide(op, relevance, op.output, factor=op.scale * self.share)
        return op.left(s).mul_(op.u), op.right(s).mul_(op.v)


@dataclass(frozen=True)
class Halves:
    """Eq. 6 for u * v or u / v, element by element, and its normalisation."""

    def __call__(self, op: Gate, relevance: Tensor) -> Slots:
        half = relevance / 2
        return half, half


@dataclass(frozen=True)
class Wholes:
    """Eq. 6 for u * v as it stands: relevance doubles; for u / v the divisor's is negative."""

    def __call__(self, op: Gate, relevance: Tensor) -> Slots:
        return relevance, -relevance if op.quotient else relevance


# -- softmax, and everything else


@dataclass(frozen=True)
class Taylor:
    """AttnLRP's softmax (Achtibat et al. 2024): R_i = x_i (R'_i - s_i sum_j R'_j)."""

    def __call__(self, op: Softmax, relevance: Tensor) -> tuple[Tensor]:
        total = relevance.sum(op.axis, keepdim=True)
        through = relevance - op.y * total
        return (torch.where(op.y == 0, 0, op.x * through),)


class ByDerivative(Dividing):
    """Eq. 2, for what has no rule of its own: R_j = sum_i x_j dL_i/dx_j R_i / L_i."""

    def __call__(self, op: Autograd, *relevances: Tensor | None) -> Slots:
        s = [
            None if r is None else self.divide(op, r, y.detach()) if y.requires_grad else r
            for r, y in zip(relevances, op.outputs, strict=True)
        ]
        carried = op.gradient(*s)
        return tuple(
            None if g is None else x.detach() * g for x, g in zip(op.operands, carried, strict=True)
        )
