"""The rules of the methods that the paper names a second time, slowly, from their equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product as indices

from torch import Tensor

from oracle import Divide, Pair, Table, every, guarded, positive_activations, zeros

Size = Callable[[float], float]


def size_shares(size: Size) -> Callable[[Tensor, Tensor, Tensor, Divide], Pair]:
    """R^u = s(u) / (s(u) + s(v)) R, R^v = s(v) / (s(u) + s(v)) R."""

    def rule(u: Tensor, v: Tensor, relevance: Tensor, divide: Divide) -> Pair:
        ru, rv = zeros(*u.shape), zeros(*v.shape)
        for i in every(u):
            a, b = size(float(u[i])), size(float(v[i]))
            if a + b:
                ru[i], rv[i] = a / (a + b) * relevance[i], b / (a + b) * relevance[i]
        return ru, rv

    return rule


def size_terms(size: Size) -> Callable[[Tensor, Tensor, Divide], Tensor]:
    """A sum of the rows of x: each entry gets its size's share of its column."""

    def rule(x: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
        out = zeros(*x.shape)
        for i, d in every(x):
            total = sum(size(float(x[j, d])) for j in range(len(x)))
            if total:
                out[i, d] = size(float(x[i, d])) / total * relevance[d]
        return out

    return rule


def to_values(size: Size) -> Callable[[Tensor, Tensor, Tensor, Divide], Pair]:
    """u v, u weights: R^v_md = sum_k u_km s(v_md) / (sum_m' u_km' s(v_m'd)) R_kd; R^u = 0."""

    def rule(u: Tensor, v: Tensor, relevance: Tensor, divide: Divide) -> Pair:
        rv = zeros(*v.shape)
        for k, d in indices(range(len(u)), range(v.shape[1])):
            parts = [float(u[k, m]) * size(float(v[m, d])) for m in range(len(v))]
            for m, part in enumerate(parts):
                if sum(parts):
                    rv[m, d] += part / sum(parts) * relevance[k, d]
        return zeros(*u.shape), rv

    return rule


def halved_sizes(size: Size, u: Tensor, v: Tensor, relevance: Tensor) -> Pair:
    """u v of two activations: s(u_km) s(v_md) of all that make up an output, half to each side."""
    ru, rv = zeros(*u.shape), zeros(*v.shape)
    for k, d in indices(range(len(u)), range(v.shape[1])):
        parts = [size(float(u[k, m])) * size(float(v[m, d])) for m in range(len(v))]
        for m, part in enumerate(parts):
            if sum(parts):
                share = part / sum(parts) * relevance[k, d] / 2
                ru[k, m] += share
                rv[m, d] += share
    return ru, rv


def positive(value: float) -> float:
    return max(value, 0.0)


EXCITATION = Table(
    guarded, positive_activations, size_shares(positive), size_terms(positive), to_values(positive)
)


# -- RAP and AGF


def contributions(x: Tensor, weight: Tensor) -> list[list[list[float]]]:
    """c[n][i][j] = x_nj w_ij of every row n."""
    return [
        [[x_j * w_j for x_j, w_j in zip(row, w_i, strict=True)] for w_i in weight.tolist()]
        for row in x.reshape(-1, x.shape[-1]).tolist()
    ]


def absolute_contributions(x: Tensor, weight: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """R_j = sum_i |c_ij| / (sum_j' |c_ij'|) R_i."""
    out, flat = (
        zeros(x.reshape(-1, x.shape[-1]).shape[0], x.shape[-1]),
        relevance.reshape(-1, relevance.shape[-1]),
    )
    for n, row in enumerate(contributions(x, weight)):
        for i, c in enumerate(row):
            total = sum(abs(part) for part in c)
            for j, part in enumerate(c):
                out[n, j] += abs(part) / total * flat[n, i] if total else 0.0
    return out.reshape(x.shape)


def relative_contributions(x: Tensor, weight: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """R'_j = sum_i (c^+ / sum c^+ + |c^-| / sum |c|) R_i, shifted so that each row's sum is R's."""
    flat = relevance.reshape(-1, relevance.shape[-1])
    out = zeros(len(flat), x.shape[-1])
    for n, row in enumerate(contributions(x, weight)):
        for i, c in enumerate(row):
            excited = sum(part for part in c if part > 0)
            total = sum(abs(part) for part in c)
            for j, part in enumerate(c):
                if part > 0:
                    out[n, j] += part / excited * flat[n, i]
                elif part < 0:
                    out[n, j] += -part / total * flat[n, i]
        live = [j for j in range(x.shape[-1]) if out[n, j] != 0]
        surplus = float(out[n].sum() - flat[n].sum())
        for j in live:
            out[n, j] -= surplus / len(live)
    return out.reshape(x.shape)


def guided(carried: Tensor, values: Tensor, gradient: Tensor) -> Tensor:
    """C + M - (sum M) / #(C != 0) where C is not 0; M = (mean_d x g)^+ / its highest."""
    means = [
        max(sum((x * g).tolist()) / len(x), 0.0) for x, g in zip(values, gradient, strict=True)
    ]
    highest = max(means)
    guide = zeros(*carried.shape)
    for n, d in every(carried):
        if carried[n, d] != 0 and highest:
            guide[n, d] = means[n] / highest
    live = sum(bool(carried[i] != 0) for i in every(carried))
    out = zeros(*carried.shape)
    for i in every(carried):
        if carried[i] != 0:
            out[i] = carried[i] + guide[i] - guide.sum() / live
    return out


ABSOLUTE = Table(guarded, absolute_contributions, size_shares(abs), size_terms(abs), to_values(abs))


# -- DeepLIFT: multipliers of one row, slot in and slot out


def softmax_multipliers(x: Tensor, x0: Tensor, slot: Tensor) -> Tensor:
    """m_j = sum_i slot_i r_i (delta_ij - r_j / sum r), r the logarithmic means of y and y0."""

    def softmax(row: list[float]) -> list[float]:
        return [math.exp(v) / sum(math.exp(w) for w in row) for v in row]

    y, y0, n = softmax(x.tolist()), softmax(x0.tolist()), len(x)
    r = [a if a == b else (a - b) / (math.log(a) - math.log(b)) for a, b in zip(y, y0, strict=True)]
    out = zeros(n)
    for i, j in indices(range(n), repeat=2):
        out[j] += slot[i] * r[i] * ((i == j) - r[j] / sum(r))
    return out


def norm_multipliers(
    x: Tensor, x0: Tensor, weight: Tensor, slot: Tensor, epsilon: float, centred: bool
) -> Tensor:
    """dy_i = w_i (dc_i - (y_i + y0_i) / 2 dd) / ((d + d0) / 2), dd = d(d^2) / (d + d0)."""
    n = len(x)

    def norm(row: list[float]) -> tuple[list[float], float]:
        mean = sum(row) / n if centred else 0.0
        c = [value - mean for value in row]
        return c, math.sqrt(sum(value**2 for value in c) / n + epsilon)

    (c, d), (c0, d0) = norm(x.tolist()), norm(x0.tolist())
    out = zeros(n)
    for i, j in indices(range(n), repeat=2):
        dc = (i == j) - (1 / n if centred else 0.0)
        dd = (c[j] + c0[j]) / n / (d + d0)
        y = (c[i] / d + c0[i] / d0) / 2
        out[j] += slot[i] * weight[i] * (dc - y * dd) / ((d + d0) / 2)
    return out


def product_multipliers(u: Tensor, v: Tensor, u0: Tensor, v0: Tensor, slot: Tensor) -> Pair:
    """(u v)_kd = sum_m u_km v_md: m^u_km = sum_d slot_kd (v + v0)_md / 2, and m^v alike."""
    mu, mv = zeros(*u.shape), zeros(*v.shape)
    for k, m, d in indices(range(len(u)), range(len(v)), range(v.shape[1])):
        mu[k, m] += slot[k, d] * (v[m, d] + v0[m, d]) / 2
        mv[m, d] += slot[k, d] * (u[k, m] + u0[k, m]) / 2
    return mu, mv


def quotient_multipliers(u: float, v: float, u0: float, v0: float) -> tuple[float, float]:
    """dz = (du - dv (z + z0) / 2) / ((v + v0) / 2)."""
    middle = (v + v0) / 2
    return 1 / middle, -(u / v + u0 / v0) / 2 / middle
