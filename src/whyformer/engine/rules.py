"""The rules of relevance, each beside its equation, and the tables that choose among them.

Equation numbers are those of Chefer, Gur and Wolf, CVPR 2021. ``relevance`` is always
the relevance of an operation's output; a rule returns that of its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from whyformer.errors import InputError

if TYPE_CHECKING:
    from whyformer.engine.learned import Learned
    from whyformer.engine.local import Elementwise, Terms
    from whyformer.engine.mixing import Product, Sum
    from whyformer.engine.operations import Operation

STABILISER = 0.01
CANCELLATION = 1e-5
REFERENCE_EPSILON = 1e-9


class Division(Protocol):
    """factor * R / z, in memory that the operation lends: valid until its next division."""

    def __call__(
        self, op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0
    ) -> Tensor: ...


# -- division: how sums, products and means treat small numbers; learned matrices divide by sums
# of positive terms and have one of their own


def guarded(op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0) -> Tensor:
    """R / z, and 0 where z is 0."""
    s = torch.div(relevance, z, out=op.scratch("s", z))
    return s.masked_fill_(z == 0, 0).mul_(factor)


def offset(op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0) -> Tensor:
    """R / (z + 1e-9), and 0 where z is 0: the authors' ``safe_divide``, blind to sign."""
    s = torch.add(z, REFERENCE_EPSILON, out=op.scratch("s", z))
    s.masked_fill_(s == 0, REFERENCE_EPSILON)
    return torch.div(relevance, s, out=s).masked_fill_(z == 0, 0).mul_(factor)


def stabilised(op: Operation, relevance: Tensor, z: Tensor, factor: float = 1.0) -> Tensor:
    """R z / (z^2 + e^2 m^2), m the root mean square of z over its last axis."""
    floor = op.mean_square(z).mul_(STABILISER**2)
    floor.clamp_(min=torch.finfo(z.dtype).tiny).div_(factor)
    s = torch.addcmul(floor, z, z, value=1 / factor, out=op.scratch("s", z))
    return torch.div(z, s, out=s).mul_(relevance)


# -- learned matrices


def positive_pairs(op: Learned, relevance: Tensor, divide: Division) -> Tensor:
    """Eq. 5: R_j = sum_i [x_j w_ji]^+ / (sum_j' [x_j' w_j'i]^+) R_i, pair by pair."""
    x_pos, x_neg = op.x.clamp(min=0), op.x.clamp(max=0)
    w_pos, w_neg = op.weight.clamp(min=0), op.weight.clamp(max=0)
    z = op.kept("pairs", lambda: op.apply(x_pos, w_pos) + op.apply(x_neg, w_neg))
    s = divide(op, relevance, z)
    return x_pos * op.transpose(s, w_pos) + x_neg * op.transpose(s, w_neg)


def positive_pairs_fast(op: Learned, relevance: Tensor, _: Division) -> Tensor:
    """Eq. 5 in three products: x^+ w^+ + x^- w^- = (x w + |x| |w|) / 2, x w being at hand.

    The halves cancel. Where nearly all pairs are negative so does the sum; a share of
    1e-5 of |x| |w| keeps such a unit's denominator above the rounding errors.
    """
    magnitude = torch.abs(op.x, out=op.scratch("|x|", op.x))
    weight = op.absolute_weight()

    def denominator() -> Tensor:
        limits = torch.finfo(relevance.dtype)
        share = 1 + max(CANCELLATION, 4 * limits.eps)
        return op.accumulate(op.unbiased(8 * limits.eps), magnitude, weight, share)

    z = op.kept("fast", denominator)
    s = torch.div(relevance, z, out=op.scratch("z", z))
    signed = op.transpose(s, op.weight).mul_(op.x)
    return signed.addcmul_(op.transpose(s, weight, "p"), magnitude)


def positive_activations(op: Learned, relevance: Tensor, divide: Division) -> Tensor:
    """Eq. 4: R_j = sum_i x_j^+ w_ji^+ / (sum_j' x_j'^+ w_j'i^+) R_i."""
    x, weight = op.x.clamp(min=0), op.weight.clamp(min=0)
    z = op.kept("positive", lambda: op.apply(x, weight))
    return x * op.transpose(divide(op, relevance, z), weight)


def separate_signs(op: Learned, relevance: Tensor, divide: Division) -> Tensor:
    """The authors' LRP baseline: x^+ w^+ and x^- w^-, each with a denominator of its own."""
    total = torch.zeros_like(op.x)
    for bounds in ({"min": 0}, {"max": 0}):
        x, weight = op.x.clamp(**bounds), op.weight.clamp(**bounds)
        s = divide(op, relevance, op.apply(x, weight))
        total += x * op.transpose(s, weight)
    return total


def bounded_input(op: Learned, relevance: Tensor, divide: Division) -> Tensor:
    """z^B, for the layer that reads the pixels: x w - l w^+ - h w^-.

    l and h are the lowest and the highest input value of the sample.
    """
    axes = tuple(range(1, op.x.ndim))
    low = op.x.amin(axes, keepdim=True).expand_as(op.x)
    high = op.x.amax(axes, keepdim=True).expand_as(op.x)
    parts = (
        (op.x, op.weight),
        (-low, op.weight.clamp(min=0)),
        (-high, op.weight.clamp(max=0)),
    )
    s = divide(op, relevance, torch.stack([op.apply(x, w) for x, w in parts]).sum(0))
    return torch.stack([x * op.transpose(s, w) for x, w in parts]).sum(0)


# -- sums and products of two activations


def ratio(numerator: Tensor, denominator: Tensor, epsilon: float = 0.0) -> Tensor:
    """A quotient of per-sample sums, 0 where the denominator is."""
    return torch.where(denominator == 0, 0, numerator / (denominator + epsilon))


def per_sample(tensor: Tensor, axis: int | None, batch: int) -> Tensor:
    """The sum over one sample, of a shape that scales the tensor.

    ``axis`` counts the samples, or the rows of all of them, sample by sample.
    """
    if axis is None:
        return tensor.sum()
    rows = tensor.shape[axis] // batch
    if rows > 1:
        tensor = tensor.unflatten(axis, (batch, rows))
    axes = [i for i in range(tensor.ndim) if i != axis]
    total = tensor.sum(axes, keepdim=True) if axes else tensor
    return total if rows == 1 else total.expand(batch, rows, *total.shape[2:]).flatten(0, 1)


def shares(op: Sum, relevance: Tensor, divide: Division) -> tuple[Tensor, Tensor]:
    """Eq. 6 for u + v: R^u = u / (u + v) R, R^v = v / (u + v) R."""
    s = divide(op, relevance, op.output)
    return s * op.u, s * op.v


def normalised_shares(op: Sum, relevance: Tensor, divide: Division) -> tuple[Tensor, Tensor]:
    """Eq. 6 and its normalisation, the factor in closed form.

    |sum R^u| / (|sum R^u| + |sum R^v|) * sum R / sum R^u = sign(sum R^u) sum R / (...)
    """
    ru, rv = shares(op, relevance, divide)
    total, su, sv = (per_sample(r, op.batch_axis, op.batch) for r in (relevance, ru, rv))
    factor = ratio(total, su.abs() + sv.abs())
    return ru.mul_(factor * su.sign()), rv.mul_(factor * sv.sign())


def reference_shares(op: Sum, relevance: Tensor, divide: Division) -> tuple[Tensor, Tensor]:
    """Eq. 6 and its normalisation, divided step by step as the authors' code does."""
    ru, rv = shares(op, relevance, divide)
    total, su, sv = (per_sample(r, op.batch_axis, op.batch) for r in (relevance, ru, rv))
    both, e = su.abs() + sv.abs(), REFERENCE_EPSILON
    return (
        ru * ratio(ratio(su.abs(), both, e) * total, su, e),
        rv * ratio(ratio(sv.abs(), both, e) * total, sv, e),
    )


def terms(op: Terms, relevance: Tensor, divide: Division) -> Tensor:
    """Eq. 6 for a sum or mean over axes: each term gets its share."""
    return op.spread(divide(op, relevance, op.total())) * op.x


def normalised_terms(op: Terms, relevance: Tensor, divide: Division) -> Tensor:
    """Eq. 6 for many terms (mean pooling), with the normalisation of two."""
    r = terms(op, relevance, divide)
    within = [i for i in range(r.ndim) if i != op.batch_axis and i not in op.axes]
    each = r.sum(within, keepdim=True) if within else r
    total = op.spread(per_sample(relevance, op.batch_axis_of_output, op.batch), to_input=False)
    factor = ratio(total, per_sample(each.abs(), op.batch_axis, op.batch))
    return r * (factor * each.sign())


def halves(op: Elementwise, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 6 for u * v or u / v, element by element, and its normalisation."""
    half = relevance / 2
    return half, half


def wholes(op: Elementwise, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 6 for u * v as it stands: relevance doubles; for u / v the divisor's is negative."""
    return relevance, -relevance if op.quotient else relevance


def halved_product(op: Product, relevance: Tensor, divide: Division) -> tuple[Tensor, Tensor]:
    """Eq. 6 for u v and its normalisation: both sums equal sum R, so a half each.

    With the stabilised division the sums are a little less than sum R; a half stays a half.
    """
    s = divide(op, relevance, op.output, factor=op.scale / 2)
    return op.left(s).mul_(op.u), op.right(s).mul_(op.v)


def whole_product(op: Product, relevance: Tensor, divide: Division) -> tuple[Tensor, Tensor]:
    """Eq. 6 for u v as it stands: relevance doubles."""
    s = divide(op, relevance, op.output, factor=op.scale)
    return op.left(s).mul_(op.u), op.right(s).mul_(op.v)


@dataclass(frozen=True)
class Rules:
    """One rule for each kind of operation; the rest passes relevance as it is, or by Eq. 2."""

    divide: Division
    learned: Callable[[Learned, Tensor, Division], Tensor]
    sum: Callable[[Sum, Tensor, Division], tuple[Tensor, Tensor]]
    terms: Callable[[Terms, Tensor, Division], Tensor]
    product: Callable[[Product, Tensor, Division], tuple[Tensor, Tensor]]
    elementwise: Callable[[Elementwise, Tensor], tuple[Tensor, Tensor]] = halves
    pixels: Callable[[Learned, Tensor, Division], Tensor] = bounded_input
    divide_learned: Division = guarded


@dataclass(frozen=True)
class Preset:
    """The two tables a preset is made of: the paper's own rules, and those of its LRP baseline."""

    name: str
    attribution: Rules
    lrp: Rules


_STABLE = Preset(
    "stable",
    attribution=Rules(
        divide=stabilised,
        learned=positive_pairs_fast,
        sum=normalised_shares,
        terms=normalised_terms,
        product=halved_product,
    ),
    lrp=Rules(
        divide=stabilised,
        learned=positive_activations,
        sum=shares,
        terms=terms,
        product=whole_product,
        elementwise=wholes,
    ),
)
_PAPER = Preset(
    "paper",
    attribution=Rules(
        divide=guarded,
        learned=positive_pairs,
        sum=normalised_shares,
        terms=normalised_terms,
        product=halved_product,
    ),
    lrp=Rules(
        divide=guarded,
        learned=positive_activations,
        sum=shares,
        terms=terms,
        product=whole_product,
        elementwise=wholes,
    ),
)
_REFERENCE = Preset(
    "reference",
    attribution=Rules(
        divide=offset,
        divide_learned=offset,
        learned=positive_pairs,
        sum=reference_shares,
        terms=terms,
        product=halved_product,
    ),
    lrp=Rules(
        divide=offset,
        divide_learned=offset,
        learned=separate_signs,
        sum=shares,
        terms=terms,
        product=halved_product,
    ),
)

BUILT_IN = (_STABLE, _PAPER, _REFERENCE)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in BUILT_IN}


def register_preset(preset: Preset) -> Preset:
    """Add a preset of one's own, to be asked for by its name."""
    if any(preset.name == known.name for known in BUILT_IN):
        raise InputError(f"{preset.name!r} is a preset of whyformer; choose another name")
    PRESETS[preset.name] = preset
    return preset
