"""Every rule a second time, slowly, straight from its equation.

Equation numbers are those of Chefer, Gur and Wolf, CVPR 2021. Everything is float64 and
loops over indices; nothing here is shared with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product as indices

import torch
from torch import Tensor

REFERENCE_EPSILON = 1e-9
STABILISER = 0.01
CANCELLATION = 1e-5

Divide = Callable[[Tensor, Tensor], Tensor]
Pair = tuple[Tensor, Tensor]


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.float64)


def vector(values: Sequence[object]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def every(tensor: Tensor) -> list[tuple[int, ...]]:
    """All indices of a tensor."""
    return list(indices(*(range(size) for size in tensor.shape)))


# -- the three divisions


def guarded(relevance: Tensor, z: Tensor) -> Tensor:
    """R / z, 0 where z is 0."""
    out = zeros(*z.shape)
    for i in every(z):
        if z[i] != 0:
            out[i] = relevance[i] / z[i]
    return out


def reference(relevance: Tensor, z: Tensor) -> Tensor:
    """R / (z + 1e-9), 0 where z is 0."""
    out = zeros(*z.shape)
    for i in every(z):
        if z[i] != 0:
            out[i] = relevance[i] / (z[i] + REFERENCE_EPSILON)
    return out


def stabilised(relevance: Tensor, z: Tensor) -> Tensor:
    """R z / (z^2 + e^2 m^2), m the root mean square of z over its last axis."""
    out = zeros(*z.shape)
    for i in every(z):
        row = z[i[:-1]].tolist()
        mean_square = sum(value**2 for value in row) / len(row)
        denominator = z[i] ** 2 + STABILISER**2 * mean_square
        if denominator != 0:
            out[i] = relevance[i] * z[i] / denominator
    return out


# -- learned matrices: x is (..., inputs), weight is (outputs, inputs)


def _pairs(
    x: Tensor,
    weight: Tensor,
    relevance: Tensor,
    divide: Divide,
    contribution: Callable[[float, float], float],
) -> Tensor:
    """R_j = sum_i c_ji / (sum_j' c_j'i) R_i, c the contribution of a pair (j, i)."""
    rows, flat = x.reshape(-1, x.shape[-1]), relevance.reshape(-1, relevance.shape[-1])
    out = []
    for row, r in zip(rows.tolist(), flat, strict=True):
        c = [
            [contribution(x_j, w_ji) for x_j, w_ji in zip(row, w_i, strict=True)]
            for w_i in weight.tolist()
        ]
        s = divide(r, vector([sum(c_i) for c_i in c])).tolist()
        out.append(
            [sum(c_i[j] * s_i for c_i, s_i in zip(c, s, strict=True)) for j in range(len(row))]
        )
    return vector(out).reshape(x.shape)


def positive_pairs(x: Tensor, weight: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """Eq. 5: the pairs q = {(i, j) | x_j w_ji >= 0}, one denominator."""
    return _pairs(x, weight, relevance, divide, lambda x, w: x * w if x * w >= 0 else 0.0)


def three_products(x: Tensor, weight: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """Eq. 5 as its fast form has it: z is (x w + (1 + 1e-5) |x| |w|) / 2."""
    out = []
    rows, flat = x.reshape(-1, x.shape[-1]), relevance.reshape(-1, relevance.shape[-1])
    for row, r in zip(rows, flat, strict=True):
        extra = CANCELLATION / 2 * torch.einsum("j,ij->i", row.abs(), weight.abs())
        out.append(positive_pairs(row, weight, r, lambda r, z, extra=extra: divide(r, z + extra)))
    return torch.stack(out).reshape(x.shape)


def positive_activations(x: Tensor, weight: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """Eq. 4: x^+ w^+."""
    return _pairs(x, weight, relevance, divide, lambda x, w: max(x, 0.0) * max(w, 0.0))


def separate_signs(x: Tensor, weight: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """The authors' LRP baseline: x^+ w^+ and x^- w^-, a denominator for each."""
    both_negative = _pairs(
        x, weight, relevance, divide, lambda x, w: x * w if x < 0 and w < 0 else 0.0
    )
    return positive_activations(x, weight, relevance, divide) + both_negative


def bounded_input(x: Tensor, weight: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """z^B on one flat sample: x w - l w^+ - h w^-, l and h its lowest and highest value."""
    low, high = min(x.tolist()), max(x.tolist())
    return _pairs(
        x,
        weight,
        relevance,
        divide,
        lambda x, w: x * w - low * max(w, 0.0) - high * min(w, 0.0),
    )


def convolution_matrix(
    kernel: Tensor, size: tuple[int, int], stride: int, padding: int = 0
) -> tuple[Tensor, tuple[int, int, int]]:
    """A convolution over (channels, height, width) as a matrix, and its output's shape."""
    outputs, channels, kh, kw = kernel.shape
    height, width = size
    rows = (height + 2 * padding - kh) // stride + 1
    columns = (width + 2 * padding - kw) // stride + 1
    shape = (outputs, rows, columns)
    matrix = zeros(outputs, rows, columns, channels, height, width)
    for o, r, c in indices(*(range(n) for n in shape)):
        for k, a, b in indices(range(channels), range(kh), range(kw)):
            y, x = r * stride + a - padding, c * stride + b - padding
            if 0 <= y < height and 0 <= x < width:
                matrix[o, r, c, k, y, x] = kernel[o, k, a, b]
    return matrix.reshape(outputs * rows * columns, channels * height * width), shape


# -- sums: every tensor is one sample


def shares(u: Tensor, v: Tensor, relevance: Tensor, divide: Divide) -> Pair:
    """Eq. 6 for u + v: R^u = u / (u + v) R, R^v = v / (u + v) R."""
    s = divide(relevance, u + v)
    ru, rv = zeros(*u.shape), zeros(*v.shape)
    for i in every(u):
        ru[i] = u[i] * s[i]
        rv[i] = v[i] * s[i]
    return ru, rv


def normalise(parts: Sequence[Tensor], relevance: Tensor, epsilon: float = 0.0) -> list[Tensor]:
    """R^u |sum R^u| / (|sum R^u| + |sum R^v| + ...) (sum R) / (sum R^u), as it is written.

    ``epsilon`` is what the authors' code adds to each denominator.
    """

    def quotient(a: float, b: float) -> float:
        return 0.0 if b == 0 else a / (b + epsilon)

    sums = [float(part.sum()) for part in parts]
    weight = sum(abs(value) for value in sums)
    total = float(relevance.sum())
    return [
        part * quotient(quotient(abs(value), weight) * total, value)
        for part, value in zip(parts, sums, strict=True)
    ]


def normalised_shares(u: Tensor, v: Tensor, relevance: Tensor, divide: Divide) -> Pair:
    """Eq. 6 for u + v and its normalisation."""
    ru, rv = normalise(shares(u, v, relevance, divide), relevance)
    return ru, rv


def reference_shares(u: Tensor, v: Tensor, relevance: Tensor, divide: Divide) -> Pair:
    """Eq. 6 for u + v and its normalisation with the authors' divisions."""
    ru, rv = normalise(shares(u, v, relevance, divide), relevance, REFERENCE_EPSILON)
    return ru, rv


def term_shares(x: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """Eq. 6 for the sum of many terms x_1 + ... + x_n; x is (n, features)."""
    total = zeros(*x.shape[1:])
    for term in x:
        total += term
    s = divide(relevance, total)
    return torch.stack([term * s for term in x])


def normalised_term_shares(x: Tensor, relevance: Tensor, divide: Divide) -> Tensor:
    """Eq. 6 for many terms and its normalisation."""
    return torch.stack(normalise(list(term_shares(x, relevance, divide)), relevance))


# -- products


def whole_product(u: Tensor, v: Tensor, relevance: Tensor, divide: Divide) -> Pair:
    """Eq. 6 for u v: R^u_km = sum_l u_km v_ml / (uv)_kl R_kl, R^v_ml = sum_k ..."""
    ru, rv = zeros(*u.shape), zeros(*v.shape)
    uv = zeros(u.shape[0], v.shape[1])
    triples = list(indices(range(u.shape[0]), range(u.shape[1]), range(v.shape[1])))
    for k, m, j in triples:
        uv[k, j] += u[k, m] * v[m, j]
    s = divide(relevance, uv)
    for k, m, j in triples:
        ru[k, m] += u[k, m] * v[m, j] * s[k, j]
        rv[m, j] += u[k, m] * v[m, j] * s[k, j]
    return ru, rv


def halved_product(u: Tensor, v: Tensor, relevance: Tensor, divide: Divide) -> Pair:
    """Eq. 6 for u v, normalised: both sums equal sum R, so a half each."""
    ru, rv = whole_product(u, v, relevance, divide)
    return ru / 2, rv / 2


# -- anything else


def generic(
    function: Callable[[Tensor], Tensor], x: Tensor, relevance: Tensor, divide: Divide
) -> Tensor:
    """Eq. 2: R_j = sum_i x_j dL_i/dx_j R_i / L_i, by the whole Jacobian."""
    y = function(x)
    jacobian = torch.autograd.functional.jacobian(function, x)
    s = divide(relevance, y)
    out = zeros(*x.shape)
    for j in every(x):
        for i in every(y):
            out[j] += x[j] * jacobian[i + j] * s[i]
    return out


# -- the tables


@dataclass(frozen=True)
class Table:
    """The rules of one preset, for the paper's method or for its LRP baseline."""

    divide: Divide
    learned: Callable[[Tensor, Tensor, Tensor, Divide], Tensor]
    sum: Callable[[Tensor, Tensor, Tensor, Divide], Pair]
    terms: Callable[[Tensor, Tensor, Divide], Tensor]
    product: Callable[[Tensor, Tensor, Tensor, Divide], Pair]
    divide_learned: Divide = guarded


TABLES = {
    ("paper", "attribution"): Table(
        guarded, positive_pairs, normalised_shares, normalised_term_shares, halved_product
    ),
    ("stable", "attribution"): Table(
        stabilised, positive_pairs, normalised_shares, normalised_term_shares, halved_product
    ),
    ("reference", "attribution"): Table(
        reference, positive_pairs, reference_shares, term_shares, halved_product, reference
    ),
    ("paper", "lrp"): Table(guarded, positive_activations, shares, term_shares, whole_product),
    ("stable", "lrp"): Table(stabilised, positive_activations, shares, term_shares, whole_product),
    ("reference", "lrp"): Table(
        reference, separate_signs, shares, term_shares, halved_product, reference
    ),
}


# -- the methods: attention, gradient and relevance are (heads, tokens, tokens) a block,
#    blocks are given input side first


def attribution_layers(gradients: Sequence[Tensor], relevances: Sequence[Tensor]) -> list[Tensor]:
    """E_h (G * R)^+ of every block: Eq. 13 without its identity."""
    layers = []
    for g, r in zip(gradients, relevances, strict=True):
        layer = zeros(*g.shape[1:])
        for h, i, j in every(g):
            layer[i, j] += max(float(g[h, i, j] * r[h, i, j]), 0.0) / len(g)
        layers.append(layer)
    return layers


def rollout_layers(attention: Sequence[Tensor]) -> list[Tensor]:
    """E_h A of every block: Eq. 15 without its identity."""
    layers = []
    for a in attention:
        layer = zeros(*a.shape[1:])
        for h, i, j in every(a):
            layer[i, j] += a[h, i, j] / len(a)
        layers.append(layer)
    return layers


def roll_out(layers: Sequence[Tensor], normalise_rows: bool = False) -> Tensor:
    """Eq. 14 and 16: the product of I + layer, the block next to the output on the left."""
    tokens = len(layers[0])
    result = torch.eye(tokens, dtype=torch.float64)
    for layer in layers:
        mixed = zeros(tokens, tokens)
        for i, j in every(layer):
            mixed[i, j] = layer[i, j] + (1.0 if i == j else 0.0)
        if normalise_rows:
            for i in range(tokens):
                mixed[i] = mixed[i] / sum(mixed[i])
        product = zeros(tokens, tokens)
        for i, k, j in indices(range(tokens), repeat=3):
            product[i, j] += mixed[i, k] * result[k, j]
        result = product
    return result


def transformer_attribution(
    gradients: Sequence[Tensor], relevances: Sequence[Tensor], normalise_rows: bool = False
) -> Tensor:
    """Eq. 13 and 14: C = prod_b (I + E_h (G * R)^+)."""
    return roll_out(attribution_layers(gradients, relevances), normalise_rows)


def rollout(attention: Sequence[Tensor], normalise_rows: bool = False) -> Tensor:
    """Eq. 15 and 16: prod_b (I + E_h A)."""
    return roll_out(rollout_layers(attention), normalise_rows)
