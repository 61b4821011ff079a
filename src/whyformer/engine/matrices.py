"""Matrix products of two activations: Q K^T, A V."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from whyformer.engine.mixing import Binary
from whyformer.engine.multiplying import multiply
from whyformer.engine.operations import Saved, Slots, adjoint
from whyformer.engine.rules.tables import Rule
from whyformer.errors import ModelError


class Product(Binary):
    """scale * (u @ v), both activations: Q K^T and A V.

    Everything is worked on as stacks of matrices: a rule lays each out once.
    """

    kind = "product"
    name = "product"

    def __init__(self, scale: float = 1.0, kept: bool = True) -> None:
        """``kept`` false: the result is made again when a rule asks for it."""
        self.scale = scale
        self._kept = kept
        #: which operand holds attention weights
        self.weights: int | None = None
        #: which operand was made of attention weights, and is none itself
        self.changed: int | None = None
        #: the operands as stacks, while a rule works on them
        self._laid: dict[str, Tensor] | None = None

    @property
    def attends(self) -> bool:  # type: ignore[override]
        """Whether this is A V."""
        return self.weights is not None

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands
        lead = u.shape[:-2]
        if lead != v.shape[:-2]:
            lead = torch.broadcast_shapes(lead, v.shape[:-2])
            u, v = (t.expand(*lead, *t.shape[-2:]) for t in (u, v))
        self.lead = lead
        out = u.new_empty(*lead, u.shape[-2], v.shape[-1])
        stacked = out.view(-1, *out.shape[-2:])
        left, right = stack(u.detach()), stack(v.detach())
        torch.bmm(left if self.scale == 1.0 else left * self.scale, right, out=stacked)
        self.keep(u, v, stacked)
        if not self._kept:
            del self._out
        return out

    @property
    def u(self) -> Tensor:
        return self._stacked("u", self._u)

    @property
    def v(self) -> Tensor:
        return self._stacked("v", self._v)

    def _stacked(self, name: str, saved: Saved) -> Tensor:
        laid = self._laid
        if laid is None:
            return stack(saved.get())
        if name not in laid:
            laid[name] = stack(saved.get())
        return laid[name]

    @property
    def output(self) -> Tensor:
        if not self._kept:
            return self.apply(self.u * self.scale, self.v)
        return self._out.get(remake=lambda: self.apply(self.u * self.scale, self.v))

    def apply(self, u: Tensor, v: Tensor) -> Tensor:
        """u @ v of other values, without the scale."""
        return torch.bmm(u, v)

    def left(self, s: Tensor) -> Tensor:
        return multiply(s, self.v.mT, self.current.fast)

    def right(self, s: Tensor) -> Tensor:
        if self.v.stride(-2) == 1:
            return multiply(s.mT, self.u, self.current.fast).mT
        return multiply(self.u.mT, s, self.current.fast)

    def back(self, rule: Rule, *slots: Tensor | None) -> Slots:
        (slot,) = slots
        assert slot is not None
        laid, self._laid = self._laid, {} if self._laid is None else self._laid
        try:
            parts = rule(self, stack(slot))
        finally:
            self._laid = laid
        return tuple(
            None if part is None else part.unflatten(0, self.lead) if self.lead else part[0]
            for part in parts
        )

    def back_abreast(self, rule: Rule, targets: Sequence[Slots]) -> list[Slots]:
        self._laid = {}
        try:
            return super().back_abreast(rule, targets)
        finally:
            self._laid = None

    def gradient(self, *slots: Tensor | None) -> Slots:
        (s,) = slots
        assert s is not None
        left, right = self.left(s), self.right(s)
        if self.scale != 1.0:
            left.mul_(self.scale), right.mul_(self.scale)
        return left, right

    def through(self, layer: Tensor, slot: Tensor) -> Slots:
        """To the values, by a layer in the place of the attention weights, features alike."""
        layer = layer.expand(*self.lead, *layer.shape[-2:])
        if self.weights == 0:
            each = by_layer(slot.mean(-1), layer).unsqueeze(-1)
            return None, each.expand(*each.shape[:-1], self.shapes[1][-1])
        each = by_layer(slot.mean(-2), layer.mT).unsqueeze(-2)
        return each.expand(each.shape[0], self.shapes[0][-2], each.shape[-1]), None

    @property
    def values(self) -> Tensor:
        """V of A V as (..., key, feature)."""
        values = self.v if self.weights == 0 else self.u.mT
        return values.unflatten(0, self.lead) if self.lead else values[0]

    def by_query(self, out: Tensor) -> Tensor:
        """A value of A V's shape as (..., query, feature)."""
        return out if self.weights == 0 else out.mT

    def halves(self, slot: Tensor) -> Slots:
        """Half to each side, in equal parts to what is multiplied."""
        share = slot / (2 * self.u.shape[-1])
        left, right = share.sum(-1, keepdim=True), share.sum(-2, keepdim=True)
        return left.expand_as(self.u), right.mT.expand(*right.shape[:-2], *self.v.mT.shape[-2:]).mT


def stack(matrices: Tensor) -> Tensor:
    """(..., m, n) as (stack, m, n); a transposed view stays one."""
    if matrices.stride(-2) == 1 and matrices.stride(-1) != 1:
        return matrices.mT.reshape(-1, matrices.shape[-1], matrices.shape[-2]).mT
    return matrices.reshape(-1, *matrices.shape[-2:])


def by_layer(rows: Tensor, layer: Tensor) -> Tensor:
    """(stack, queries) by (..., queries, keys); one layer for all heads is not copied for each."""
    if layer.ndim == 4 and layer.stride(1) == 0:
        return torch.bmm(rows.view(*layer.shape[:2], -1), layer[:, 0]).flatten(0, 1)
    return torch.bmm(rows.unsqueeze(1), stack(layer)).squeeze(1)


class Contraction(Product):
    """A product of two activations that is written as an einsum."""

    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands
        out = torch.einsum(self.equation, u, v)
        self.keep(u, v, out)
        return out

    def _stacked(self, name: str, saved: Saved) -> Tensor:
        return saved.get()

    def apply(self, u: Tensor, v: Tensor) -> Tensor:
        return torch.einsum(self.equation, u, v)

    def left(self, s: Tensor) -> Tensor:
        return adjoint(lambda u: self.apply(u, self.v), self.u, s)

    def right(self, s: Tensor) -> Tensor:
        return adjoint(lambda v: self.apply(self.u, v), self.v, s)

    def back(self, rule: Rule, *slots: Tensor | None) -> Slots:
        return rule(self, *slots)

    def through(self, layer: Tensor, slot: Tensor) -> Slots:
        if self.weights == 0:
            return None, adjoint(lambda v: self.apply(layer, v), self.v, slot)
        return adjoint(lambda u: self.apply(u, layer), self.u, slot), None

    @property
    def values(self) -> Tensor:
        _, others, _ = self._subscripts()
        return (self.v if self.weights == 0 else self.u).permute(self._order(others, key=True))

    def by_query(self, out: Tensor) -> Tensor:
        return out.permute(self._order(self._subscripts()[2], key=False))

    def _subscripts(self) -> tuple[str, str, str]:
        """The letters of A, of V and of their product."""
        inputs, _, out = self.equation.replace(" ", "").partition("->")
        own, others = inputs.split(",") if self.weights == 0 else inputs.split(",")[::-1]
        return own, others, out

    def _order(self, letters: str, key: bool) -> list[int]:
        """The order that puts V or A V as (..., key or query, feature)."""
        own, others, out = self._subscripts()
        queries = [x for x in own if x not in others]
        keys = [x for x in own if x in others and x not in out]
        features = [x for x in others if x not in own]
        if "." in self.equation or len(queries) != 1 or len(keys) != 1 or len(features) != 1:
            raise ModelError(
                f"the attention einsum {self.equation!r} has no single axis for queries, keys and "
                "features, which this method tells from its letters"
            )
        lead = [x for x in own if x not in (*queries, *keys)]
        return [letters.index(x) for x in (*lead, *(keys if key else queries), *features)]

    def halves(self, slot: Tensor) -> Slots:
        u, v = torch.ones_like(self.u), torch.ones_like(self.v)
        share = slot / (2 * self.apply(u, v))
        return (
            adjoint(lambda u: self.apply(u, v), self.u, share),
            adjoint(lambda v: self.apply(u, v), self.v, share),
        )
