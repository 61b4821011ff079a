"""Rules for learned maps: Linear layers, convolutions, any product with a constant.

Equation numbers are those of Chefer, Gur and Wolf, CVPR 2021. A rule is given the relevance of
the map's output and returns that of its input, in a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whyformer.engine.rules.division import Dividing, Signed

if TYPE_CHECKING:
    from whyformer.engine.learned import Learned

CANCELLATION = 1e-5


class PositivePairs(Dividing):
    """Eq. 5: R_j = sum_i [x_j w_ji]^+ / (sum_j' [x_j' w_j'i]^+) R_i, pair by pair."""

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        x_pos, x_neg = op.x.clamp(min=0), op.x.clamp(max=0)
        w_pos, w_neg = op.weight.clamp(min=0), op.weight.clamp(max=0)
        z = op.kept("pairs", lambda: op.apply(x_pos, w_pos) + op.apply(x_neg, w_neg))
        s = self.divide(op, relevance, z)
        return (x_pos * op.transpose(s, w_pos) + x_neg * op.transpose(s, w_neg),)


@dataclass(frozen=True)
class PositivePairsFast:
    """Eq. 5 in three products: x^+ w^+ + x^- w^- = (x w + |x| |w|) / 2, x w being at hand.

    The halves cancel. Where nearly all pairs are negative so does the sum; a share of 1e-5 of
    |x| |w|, or more where products are in bfloat16, keeps such a unit's denominator above the
    rounding errors.
    """

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        magnitude, weights, z = self._terms(op)
        several = op.current.keep or op.current.abreast
        s = relevance / z if several else torch.div(relevance, z, out=z)
        return (self._shares(op, s, magnitude, weights),)

    def together(self, op: Learned, relevances: Sequence[Tensor]) -> list[tuple[Tensor]]:
        """Several targets' relevance as more rows of the same products."""
        magnitude, weights, z = self._terms(op)
        s = z.new_empty(len(relevances), *z.shape)
        for relevance, each in zip(relevances, s, strict=True):
            torch.div(relevance, z, out=each)
        return [(each,) for each in self._shares(op, s, magnitude, weights)]

    def _terms(self, op: Learned) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
        """|x|, w and |w|, and the denominator, which are the same for every target."""
        weight = op.multiplied
        magnitude, size = op.x.abs(), op.current.absolute(weight)

        def denominator() -> Tensor:
            epsilon = torch.finfo(magnitude.dtype).eps
            share = 1 + max(CANCELLATION, 4 * epsilon, op.current.rounding)
            return op.accumulate(op.unbiased(8 * epsilon), magnitude, size, share)

        return magnitude, (weight, size), op.kept("fast", denominator)

    def _shares(
        self, op: Learned, s: Tensor, magnitude: Tensor, weights: tuple[Tensor, Tensor]
    ) -> Tensor:
        weight, size = weights
        signed = op.transpose(s, weight).mul_(op.x)
        return signed.addcmul_(op.transpose(s, size), magnitude)


class PositiveActivations(Dividing):
    """Eq. 4: R_j = sum_i x_j^+ w_ji^+ / (sum_j' x_j'^+ w_j'i^+) R_i."""

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        x, weight = op.x.clamp(min=0), op.weight.clamp(min=0)
        z = op.kept("positive", lambda: op.apply(x, weight))
        return (x * op.transpose(self.divide(op, relevance, z), weight),)


class SeparateSigns(Dividing):
    """The authors' LRP baseline: x^+ w^+ and x^- w^-, each with a denominator of its own."""

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        total = torch.zeros_like(op.x)
        for bounds in ({"min": 0}, {"max": 0}):
            x, weight = op.x.clamp(**bounds), op.weight.clamp(**bounds)
            s = self.divide(op, relevance, op.apply(x, weight))
            total += x * op.transpose(s, weight)
        return (total,)


class BoundedInput(Dividing):
    """z^B, for the layer that reads the pixels: x w - l w^+ - h w^-.

    l and h are the lowest and the highest input value of the sample.
    """

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        axes = tuple(range(1, op.x.ndim))
        low = op.x.amin(axes, keepdim=True).expand_as(op.x)
        high = op.x.amax(axes, keepdim=True).expand_as(op.x)
        parts = (
            (op.x, op.weight),
            (-low, op.weight.clamp(min=0)),
            (-high, op.weight.clamp(max=0)),
        )
        z = torch.stack([op.apply(x, w) for x, w in parts]).sum(0)
        s = self.divide(op, relevance, z)
        return (torch.stack([x * op.transpose(s, w) for x, w in parts]).sum(0),)


@dataclass(frozen=True)
class Epsilon:
    """LRP's epsilon rule (Bach et al. 2015): R_j = sum_i x_j w_ji / (y_i + e sign(y_i)) R_i.

    y is the map's whole output: the bias keeps its share, which is dropped.
    """

    epsilon: float = 1e-6

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        s = Signed(self.epsilon)(op, relevance, op.y)
        return (op.transpose(s, op.weight).mul_(op.x),)


@dataclass(frozen=True)
class Gamma:
    """LRP's gamma rule (Montavon et al. 2019) for inputs of both signs (Andeol et al. 2021).

    Positive outputs weigh pairs by x^+ (w + g w^+) + x^- (w + g w^-), negative outputs by
    x^+ (w + g w^-) + x^- (w + g w^+): what agrees with the output counts 1 + g times.
    """

    gamma: float = 0.05
    epsilon: float = 1e-6

    def __call__(self, op: Learned, relevance: Tensor) -> tuple[Tensor]:
        x_pos, x_neg = op.x.clamp(min=0), op.x.clamp(max=0)
        w_pos = op.weight + self.gamma * op.weight.clamp(min=0)
        w_neg = op.weight + self.gamma * op.weight.clamp(max=0)
        total = torch.zeros_like(op.x)
        for for_pos, for_neg, chosen in (
            (w_pos, w_neg, op.y >= 0),
            (w_neg, w_pos, op.y < 0),
        ):
            z = op.apply(x_pos, for_pos) + op.apply(x_neg, for_neg)
            s = Signed(self.epsilon)(op, relevance, z) * chosen
            total += x_pos * op.transpose(s, for_pos) + x_neg * op.transpose(s, for_neg)
        return (total,)
