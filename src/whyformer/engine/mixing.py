"""Operations that mix two activations: what sums and products share, and sums."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from whyformer.engine.operations import Operation, Saved, Slots
from whyformer.engine.rules.tables import Rule
from whyformer.engine.samples import Samples

#: an additive mask below this hides a score
MASKED = -1000.0


class Binary(Operation):
    """Two operands and their result."""

    #: of scores, those that the softmax is shown; None: all
    attended: Tensor | None = None
    #: whether the columns of a row are of other samples
    apart = False

    def keep(self, u: Tensor, v: Tensor, out: Tensor) -> None:
        self._u, self._v, self._out = Saved(u), Saved(v), Saved(out)
        self.output_shape = out.shape

    @property
    def u(self) -> Tensor:
        return self._u.get()

    @property
    def v(self) -> Tensor:
        return self._v.get()

    def attend(self, mask: Tensor, shape: Sequence[int]) -> None:
        """Note an additive or boolean mask (True: attend) on the scores that this makes."""
        if self.lean:
            return
        attended = mask if mask.dtype is torch.bool else mask > MASKED
        whole = torch.Size(shape)
        if bool(attended.all()) or whole.numel() != self.output_shape.numel():
            return
        attended = attended.expand(whole).reshape(self.output_shape)
        self.attended = attended if self.attended is None else attended & self.attended

    def own(self, columns: Tensor | bool) -> None:
        """Note which columns of the result are of a row's own sample."""
        if isinstance(columns, Tensor):
            self.attend(columns, self.output_shape)
        else:
            self.apart = not columns

    def mean_square(self, z: Tensor) -> Tensor:
        """Padding must not matter: scores that are masked out are left out, and other samples."""
        if self.apart:
            return z.square()
        if self.attended is None:
            return super().mean_square(z)
        total = z.masked_fill(~self.attended, 0).square_().sum(-1, keepdim=True)
        return total.div_(self.attended.sum(-1, keepdim=True).clamp_(min=1))


class Sum(Binary):
    """u + v, both activations; or u + constant, whose share is dropped.

    ``one_source``: both are the same value, moved and scaled. ``skip``: which operand the other
    was computed from (a skip connection). ``mixes``: which operands hold attention that the other
    does not.
    """

    kind = "sum"
    name = "sum"

    def __init__(
        self,
        samples: Samples,
        constant: Tensor | None = None,
        one_source: bool = False,
        skip: int | None = None,
        mixes: tuple[bool, bool] = (False, False),
    ) -> None:
        self.samples = samples
        self.constant = constant
        self.one_source = one_source
        self.skip = skip
        self.mixes = mixes

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands if self.constant is None else (operands[0], self.constant.detach())
        out = u + v
        if not self.lean:
            self.keep(u, v, out)
        return out

    @property
    def output(self) -> Tensor:
        return self._out.get(remake=lambda: self.u + self.v)

    def mean_square(self, z: Tensor) -> Tensor:
        last = self.samples.axis == z.ndim - 1
        return z.square() if last and z.ndim > 1 else super().mean_square(z)

    def back(self, rule: Rule, *slots: Tensor | None) -> Slots:
        return super().back(rule, *slots)[: self.count]

    def gradient(self, *slots: Tensor | None) -> Slots:
        return slots[0], slots[0]

    def constant_terms(self, *slots: Tensor | None) -> list[Tensor]:
        (slot,) = slots
        return [] if self.constant is None or slot is None else [slot * self.constant]


class OntoZeros(Operation):
    """v + u where u is zero: Eq. 6 without a division, all of the relevance is v's."""

    kind = "scale"
    name = "sum"
    transparent = True

    def run(self, *operands: Tensor) -> Tensor:
        v, u = operands
        return v + u

    def to_subject(self, slot: Tensor) -> Slots:
        return slot, None

    def gradient(self, *slots: Tensor | None) -> Slots:
        return slots[0], slots[0]


class Bias(Operation):
    """x + a vector or number for all rows: it takes no share of the relevance."""

    kind = "scale"
    name = "bias"
    transparent = True

    def __init__(self, constant: Tensor | float) -> None:
        self.constant = constant

    def run(self, *operands: Tensor) -> Tensor:
        return operands[0] + self.constant

    def gradient(self, *slots: Tensor | None) -> Slots:
        return slots

    def constant_terms(self, *slots: Tensor | None) -> list[Tensor]:
        (slot,) = slots
        return [] if slot is None else [slot * self.constant]
