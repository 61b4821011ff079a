"""Operations that mix two activations: sums (skip connections) and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from whyformer.engine.operations import Operation, Saved, adjoint
from whyformer.engine.rules import Rules

#: an additive mask below this hides a score
MASKED = -1000.0


class Pair(Operation):
    """Two operands and their result."""

    def keep(self, u: Tensor, v: Tensor, out: Tensor) -> None:
        self._u, self._v, self._out = Saved(u), Saved(v), Saved(out)

    @property
    def u(self) -> Tensor:
        return self._u.get()

    @property
    def v(self) -> Tensor:
        return self._v.get()


class Sum(Pair):
    """u + v, both activations; or u + constant, whose share is dropped."""

    name = "sum"

    def __init__(self, batch_axis: int | None, batch: int, constant: Tensor | None = None) -> None:
        self.batch_axis = batch_axis
        self.batch = batch
        self.constant = constant

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands if self.constant is None else (operands[0], self.constant.detach())
        out = u + v
        self.keep(u, v, out)
        return out

    @property
    def output(self) -> Tensor:
        return self._out.get(remake=lambda: self.u + self.v)

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return (slots[0], slots[0]) if self.constant is None else (slots[0],)

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        both = rules.sum(self, slots[0], rules.divide)
        return both if self.constant is None else both[:1]


class Product(Pair):
    """scale * (u @ v), both activations: Q K^T and A V.

    Everything is kept as stacks of matrices, so that no product has to lay them out again.
    """

    name = "product"

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        #: of scores, those that the softmax is shown; None: all
        self.attended: Tensor | None = None

    def attend(self, mask: Tensor, shape: Sequence[int]) -> None:
        """Note an additive or boolean mask (True: attend) on the scores that this product is."""
        attended = mask if mask.dtype is torch.bool else mask > MASKED
        if bool(attended.all()):
            return
        attended = attended.expand(*shape).reshape(self.output_shape)
        self.attended = attended if self.attended is None else attended & self.attended

    def mean_square(self, z: Tensor) -> Tensor:
        """Padding must not matter: scores that are masked out are left out."""
        if self.attended is None:
            return super().mean_square(z)
        total = z.masked_fill(~self.attended, 0).square_().sum(-1, keepdim=True)
        return total.div_(self.attended.sum(-1, keepdim=True).clamp_(min=1))

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands
        lead = u.shape[:-2]
        if lead != v.shape[:-2]:
            lead = torch.broadcast_shapes(lead, v.shape[:-2])
            u, v = (t.expand(*lead, *t.shape[-2:]) for t in (u, v))
        self._lead = lead
        u, v = stack(u.detach()), stack(v.detach())
        out = u.new_empty(*lead, u.shape[-2], v.shape[-1])
        stacked = out.view(-1, *out.shape[-2:])
        torch.bmm(u if self.scale == 1.0 else u * self.scale, v, out=stacked)
        self.keep(u, v, stacked)
        self.output_shape = stacked.shape
        return out

    @property
    def output(self) -> Tensor:
        return self._out.get(remake=lambda: torch.bmm(self.u * self.scale, self.v))

    def left(self, s: Tensor) -> Tensor:
        return torch.bmm(s, self.v.mT)

    def right(self, s: Tensor) -> Tensor:
        if self.v.stride(-2) == 1:
            return torch.bmm(s.mT, self.u).mT
        return torch.bmm(self.u.mT, s)

    def unstack(self, *parts: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.unflatten(0, self._lead) if self._lead else part[0] for part in parts)

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        s = stack(slots[0])
        left, right = self.left(s), self.right(s)
        if self.scale != 1.0:
            left.mul_(self.scale), right.mul_(self.scale)
        return self.unstack(left, right)

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return self.unstack(*rules.product(self, stack(slots[0]), rules.divide))


def stack(matrices: Tensor) -> Tensor:
    """(..., m, n) as (stack, m, n); a transposed view stays one."""
    if matrices.stride(-2) == 1 and matrices.stride(-1) != 1:
        return matrices.mT.reshape(-1, matrices.shape[-1], matrices.shape[-2]).mT
    return matrices.reshape(-1, *matrices.shape[-2:])


class Contraction(Product):
    """A product of two activations that is written as an einsum."""

    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands
        out = torch.einsum(self.equation, u, v)
        self.keep(u, v, out)
        self.output_shape = out.shape
        return out

    @property
    def output(self) -> Tensor:
        return self._out.get(remake=lambda: torch.einsum(self.equation, self.u, self.v))

    def left(self, s: Tensor) -> Tensor:
        return adjoint(lambda u: torch.einsum(self.equation, u, self.v), self.u, s)

    def right(self, s: Tensor) -> Tensor:
        return adjoint(lambda v: torch.einsum(self.equation, self.u, v), self.v, s)

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return self.left(slots[0]), self.right(slots[0])

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return rules.product(self, slots[0], rules.divide)
