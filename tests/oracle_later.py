"""The rules that came after the paper: LRP's epsilon and gamma, AttnLRP, the balanced gradients.

They are written as slowly as those of ``oracle.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product as indices

from torch import Tensor

from oracle import Pair, every, zeros

# -- the rules that came after the paper: LRP's epsilon and gamma, AttnLRP


def away_from_zero(value: float, epsilon: float) -> float:
    """z + e sign(z), sign(0) = 1."""
    return value + epsilon if value >= 0 else value - epsilon


def signed(relevance: Tensor, z: Tensor, epsilon: float = 1e-6) -> Tensor:
    """R / (z + e sign(z))."""
    out = zeros(*z.shape)
    for i in every(z):
        out[i] = relevance[i] / away_from_zero(float(z[i]), epsilon)
    return out


def epsilon_rule(
    x: Tensor, weight: Tensor, bias: Tensor, relevance: Tensor, epsilon: float = 1e-6
) -> Tensor:
    """R_j = sum_i x_j w_ji / (y_i + e sign(y_i)) R_i, y_i = sum_j x_j w_ji + b_i."""
    rows, flat = x.reshape(-1, x.shape[-1]), relevance.reshape(-1, relevance.shape[-1])
    out = zeros(*rows.shape)
    for n, i in indices(range(len(rows)), range(len(weight))):
        y = sum(float(rows[n, j] * weight[i, j]) for j in range(x.shape[-1])) + float(bias[i])
        for j in range(x.shape[-1]):
            out[n, j] += rows[n, j] * weight[i, j] / away_from_zero(y, epsilon) * flat[n, i]
    return out.reshape(x.shape)


def gamma_rule(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    relevance: Tensor,
    gamma: float = 0.05,
    epsilon: float = 1e-6,
) -> Tensor:
    """Pairs that agree with their output's sign count 1 + g times, the others once.

    R_j = sum_i c_ji / (sum_j' c_j'i + e sign) R_i; the bias decides the output's sign and takes
    no share.
    """
    rows, flat = x.reshape(-1, x.shape[-1]), relevance.reshape(-1, relevance.shape[-1])
    out = zeros(*rows.shape)
    for n, i in indices(range(len(rows)), range(len(weight))):
        pairs = [float(rows[n, j] * weight[i, j]) for j in range(x.shape[-1])]
        positive = sum(pairs) + float(bias[i]) >= 0
        c = [pair * (1 + gamma) if (pair > 0) == positive else pair for pair in pairs]
        for j, share in enumerate(c):
            out[n, j] += share / away_from_zero(sum(c), epsilon) * flat[n, i]
    return out.reshape(x.shape)


def softmax_taylor(x: Tensor, relevance: Tensor) -> Tensor:
    """AttnLRP's softmax over the last axis: R_i = x_i (R'_i - s_i sum_j R'_j)."""
    out = zeros(*x.shape)
    for place in every(x[..., 0]):
        highest = max(x[place].tolist())
        powers = [math.exp(value - highest) for value in x[place].tolist()]
        total = sum(relevance[place].tolist())
        for i, power in enumerate(powers):
            s = power / sum(powers)
            if s:
                out[(*place, i)] = x[(*place, i)] * (relevance[(*place, i)] - s * total)
    return out


def attnlrp_product(u: Tensor, v: Tensor, relevance: Tensor, epsilon: float = 1e-6) -> Pair:
    """O = u v: R^u_km = sum_l u_km v_ml / (2 O_kl + 2 e sign(O_kl)) R_kl, and R^v_ml alike."""
    ru, rv = zeros(*u.shape), zeros(*v.shape)
    for k, j in indices(range(u.shape[0]), range(v.shape[1])):
        out = sum(float(u[k, m] * v[m, j]) for m in range(u.shape[1]))
        s = relevance[k, j] / away_from_zero(2 * out, 2 * epsilon)
        for m in range(u.shape[1]):
            ru[k, m] += u[k, m] * v[m, j] * s
            rv[m, j] += u[k, m] * v[m, j] * s
    return ru, rv


# -- balanced gradients


def constant_deviation(
    x: Tensor, weight: Tensor, slot: Tensor, epsilon: float, centred: bool
) -> Tensor:
    """y_i = w_i (x_i - mean) / d over the last axis, d a constant: the mean is none.

    g_j = sum_i slot_i w_i (delta_ij - 1/n) / d, or without the 1/n where nothing is subtracted.
    """
    out, n = zeros(*x.shape), x.shape[-1]
    for place in every(x[..., 0]):
        row = x[place].tolist()
        mean = sum(row) / n if centred else 0.0
        d = math.sqrt(sum((value - mean) ** 2 for value in row) / n + epsilon)
        for i, j in indices(range(n), repeat=2):
            slope = (i == j) - (1 / n if centred else 0.0)
            out[(*place, j)] += slot[(*place, i)] * weight[i] * slope / d
    return out


def constant_norm(x: Tensor, slot: Tensor) -> Tensor:
    """x / |x| over the last axis with |x| a constant."""
    out = zeros(*x.shape)
    for place in every(x[..., 0]):
        length = math.sqrt(sum(value**2 for value in x[place].tolist()))
        out[place] = slot[place] / length
    return out


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


#: (f(x) - f(0)) / x in closed form, without a division by a small x
GATES: dict[str, Callable[[float], float]] = {
    "gelu": lambda x: math.erfc(-x / math.sqrt(2)) / 2,
    "gelu tanh": lambda x: (
        1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    ) / 2,
    "silu": sigmoid,
    "quick gelu": lambda x: sigmoid(1.702 * x),
    "relu": lambda x: 1.0 if x > 0 else 0.0,
    "tanh": lambda x: math.tanh(x) / x if x else 1.0,
    "sigmoid": lambda x: math.tanh(x / 2) / (2 * x) if x else 0.25,
}  # fmt: skip


def constant_gate(name: str, x: Tensor, slot: Tensor) -> Tensor:
    """slot c(x), y = f(0) + x c(x)."""
    out = zeros(*x.shape)
    for i in every(x):
        out[i] = slot[i] * GATES[name](float(x[i]))
    return out
