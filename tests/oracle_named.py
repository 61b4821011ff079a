"""The rules of the methods that the paper names a second time, slowly, from their equations."""

from __future__ import annotations

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
