"""DeepLIFT's multipliers (Shrikumar et al. 2017): m with dy = sum_j m_j dx_j, exactly.

d is a value's difference from the same value at the baseline, x0 = x - dx; ``at`` holds each
operation as it was there. What is linear has its derivative. A multiplier of everything else is
written so that no small difference divides, and tends to the derivative as x0 tends to x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whyformer.engine.rules.division import GUARDED
from whyformer.engine.rules.tables import Rule, Table, gradients

if TYPE_CHECKING:
    from whyformer.engine.local import Autograd, Normalisation, Pointwise, Softmax
    from whyformer.engine.local import ByStatistic as Statistic
    from whyformer.engine.operations import Operation

Slots = tuple[Tensor | None, ...]
Pairs = Mapping["Operation", "Operation"]

#: a change of y below this many roundings of y is no change that can be divided by
ROUNDINGS = 1e4
#: lengths and deviations: their squares are quadratic
ROOTS = frozenset("norm linalg_norm linalg_vector_norm vector_norm std".split())
#: places on the way from the baseline, for what has no rule of its own
PLACES = 16


@dataclass(frozen=True, eq=False)
class Compared:
    """A rule that knows every operation as it is at the baseline."""

    at: Pairs


class Midpoint(Compared):
    """u v: dz = du (v + v0) / 2 + dv (u + u0) / 2, the mean of the derivatives at both ends."""

    def __call__(self, op: Operation, slot: Tensor) -> Slots:
        here, there = op.gradient(slot), self.at[op].gradient(slot)
        return tuple(
            None if a is None or b is None else (a + b) / 2
            for a, b in zip(here, there, strict=True)
        )


class Quotient(Compared):
    """z = u / v: dz = (du - dv (z + z0) / 2) / ((v + v0) / 2), by Midpoint for u = z v.

    Where v changes its sign: dz = du (1/v + 1/v0) / 2 - dv (u + u0) / (2 v v0).
    """

    def __call__(self, op: Autograd, slot: Tensor) -> Slots:
        other: Autograd = self.at[op]  # type: ignore[assignment]
        (u, v), (u0, v0) = ([t.detach() for t in o.operands] for o in (op, other))
        same, middle = v * v0 > 0, (v + v0) / 2
        left = slot * torch.where(same, 1 / middle, (1 / v + 1 / v0) / 2)
        ratio = torch.where(same, (u / v + u0 / v0) / 2 / middle, (u + u0) / (2 * v * v0))
        return left.sum_to_size(u.shape), (-slot * ratio).sum_to_size(v.shape)


class ByStatistic(Compared):
    """y = x s, s a statistic of x such as one over its deviation: Quotient by 1/s.

    dy = dx 2 s s0 / (s + s0) + ds (y + y0) / (s + s0): a baseline without spread, whose s is
    huge, makes no multiplier so. Where s changes its sign: Midpoint.
    """

    def __call__(self, op: Statistic, slot: Tensor) -> Slots:
        other: Statistic = self.at[op]  # type: ignore[assignment]
        (x, s), (x0, s0) = (in_order([t.detach() for t in o.operands], op) for o in (op, other))
        same, total = s * s0 > 0, s + s0
        to_x = slot * torch.where(same, 2 * s * s0 / total, total / 2)
        to_s = slot * torch.where(same, (x * s + x0 * s0) / total, (x + x0) / 2)
        return in_order([to_x.sum_to_size(x.shape), to_s.sum_to_size(s.shape)], op)


def in_order(pair: Sequence[Tensor], op: Statistic) -> tuple[Tensor, Tensor]:
    """Subject and statistic, from the operands; and back."""
    one, two = pair
    return (one, two) if op.subject == 0 else (two, one)


class Rescale(Compared):
    """y = f(x), element by element: m = dy / dx; where y hardly changes, f' half way."""

    def __call__(self, op: Pointwise, slot: Tensor) -> Slots:
        other: Pointwise = self.at[op]  # type: ignore[assignment]
        x, y, x0, y0 = op.x, op.y, other.x, other.y
        if y.shape != x.shape:
            return Along(self.at)(op, slot)
        with torch.enable_grad():
            middle = ((x + x0) / 2).requires_grad_()
            (slope,) = torch.autograd.grad(op.call(middle).sum(), middle)
        slope = torch.where(slope.isfinite(), slope, 0)
        rounding = ROUNDINGS * torch.finfo(y.dtype).eps * (y.abs() + y0.abs())
        change = torch.maximum(((x - x0) * slope).abs(), (y - y0).abs())
        still = (change <= rounding) | (x == x0)
        return (slot * torch.where(still, slope, (y - y0) / (x - x0)),)


class LogarithmicMean(Compared):
    """y = softmax(x): dy_i = r_i (dx_i - sum_j r_j dx_j / sum_j r_j).

    r_i = dy_i / d(log y_i) is the logarithmic mean of y_i and its baseline: exp by Rescale, and
    the normalisation by sum_i dy_i = 0.
    """

    def __call__(self, op: Softmax, slot: Tensor) -> Slots:
        other: Softmax = self.at[op]  # type: ignore[assignment]
        y, y0, axis = op.y, other.y, op.axis
        change = logarithms_change(op, other).abs()
        share = torch.where(change > 0, -torch.expm1(-change) / change, 1)
        mean = torch.where((y == 0) & (y0 == 0), 0, torch.maximum(y, y0) * share)
        shared = GUARDED(op, (slot * mean).sum(axis, keepdim=True), mean.sum(axis, keepdim=True))
        return (torch.where(mean == 0, 0, mean * (slot - shared)),)


def logarithms_change(op: Softmax, other: Softmax) -> Tensor:
    """d(log y) by the operands, for what is added to them is the same: d(x - x_p) + d(log y_p).

    p is a place that both attend to, so that its logarithms are at hand.
    """
    place = torch.minimum(op.y, other.y).argmax(op.axis, keepdim=True)
    x = op.x - other.x
    at_place = op.y.gather(op.axis, place).log() - other.y.gather(op.axis, place).log()
    return x - x.gather(op.axis, place) + at_place


class Norm(Compared):
    """y = c / d (times a weight, plus a bias), c = x - mean, d^2 the mean of c^2, plus epsilon.

    dy = (dc - (y + y0) / 2 dd) / ((d + d0) / 2), dd = d(d^2) / (d + d0), and d(d^2) is its
    derivative half way times dx, as it is quadratic in x.
    """

    def __call__(self, op: Normalisation, slot: Tensor) -> Slots:
        other: Normalisation = self.at[op]  # type: ignore[assignment]
        (y, d), (y0, d0) = (parts(o) for o in (op, other))
        with torch.enable_grad():
            x = ((op.x + other.x) / 2).requires_grad_()
            mean, scale = op.statistics(x)
            centred = x if mean is None else x - mean
            scaled = (centred - (y + y0) / 2 * scale.pow(-2) / (d + d0)) * 2 / (d + d0)
            if op.weight is not None:
                scaled = scaled * op.weight
            return torch.autograd.grad(scaled, x, slot)


def parts(op: Normalisation) -> tuple[Tensor, Tensor]:
    """A norm's result without weight and bias, and the deviation that it divided by."""
    mean, scale = op.statistics(op.x)
    return (op.x if mean is None else op.x - mean) * scale, 1 / scale


class Root(Compared):
    """y = |x| or a deviation, y^2 quadratic in x: dy = d(y^2) / (y + y0), d(y^2) as in Norm."""

    def __call__(self, op: Autograd, slot: Tensor) -> Slots:
        other: Autograd = self.at[op]  # type: ignore[assignment]
        with torch.enable_grad():
            x = ((op.x + other.x) / 2).requires_grad_()
            squared = op.call(x).square()
        return torch.autograd.grad(squared, x, GUARDED(op, slot, op.y + other.y))


class Along(Compared):
    """What has no rule of its own: its mean derivative on the straight way from the baseline."""

    def __call__(self, op: Autograd, *slots: Tensor | None) -> Slots:
        import numpy as np

        other: Autograd = self.at[op]  # type: ignore[assignment]
        found = [torch.zeros_like(x).detach() for x in op.operands]
        for place, weight in zip(*np.polynomial.legendre.leggauss(PLACES), strict=True):
            share = (1 + float(place)) / 2
            moved = [
                torch.lerp(x0.detach(), x.detach(), share).requires_grad_()
                for x, x0 in zip(op.operands, other.operands, strict=True)
            ]
            with torch.enable_grad():
                result = op.call(*moved)
            outputs = [result] if isinstance(result, Tensor) else list(result)
            pairs = [
                (y, slot)
                for y, slot in zip(outputs, slots, strict=True)
                if slot is not None and y.requires_grad
            ]
            slopes = torch.autograd.grad(
                [y for y, _ in pairs], moved, [slot for _, slot in pairs], allow_unused=True
            )
            for total, slope in zip(found, slopes, strict=True):
                total += 0 if slope is None else slope * (float(weight) / 2)
        return tuple(found)


class ByName(Compared):
    """A product or a quotient, element by element; a difference is linear."""

    def __call__(self, op: Autograd, slot: Tensor) -> Slots:
        if op.name == "div":
            return Quotient(self.at)(op, slot)
        if op.name == "sub":
            return op.gradient(slot)
        rule: Rule = ByStatistic(self.at) if op.kind == "normalisation" else Midpoint(self.at)
        return rule(op, slot)


def deeplift_table(at: Pairs) -> Table:
    """DeepLIFT's Rescale rule, with multipliers for what multiplies, divides and normalises."""
    spelled, along = ByName(at), Along(at)
    table = gradients(
        product=Midpoint(at),
        softmax=LogarithmicMean(at),
        normalisation=Norm(at),
        activation=Rescale(at),
        gate=spelled,
        generic=along,
    )
    places = ((by_two, spelled), (is_root, Root(at)), (is_log_softmax, along))
    return replace(table, places=places)


def by_two(op: Operation) -> bool:
    """A norm or an activation that is spelled out: a value by another that it made."""
    return op.kind in ("normalisation", "activation") and op.count == 2


def is_root(op: Operation) -> bool:
    return op.kind == "generic" and op.name in ROOTS


def is_log_softmax(op: Operation) -> bool:
    """Of the kind of scalings and shifts, and the only one that is not linear."""
    return op.name == "log_softmax"
