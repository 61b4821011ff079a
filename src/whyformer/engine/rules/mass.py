"""A roll-out as a backward: what the asked place reads is carried down to where the input enters.

The place that is asked about starts with a mass of one. At A V it goes from queries to keys by
the method's layer; at a skip connection around attention both sides have it, which is I + layer;
everything else hands a token's mass on, however the model windows, merges, drops or folds its
tokens. So prod_b (I + layer_b) is rolled out without knowing sequences, rows, grids or places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whyformer.engine.rules.relevance import PassOn
from whyformer.engine.rules.tables import Table

if TYPE_CHECKING:
    from whyformer.engine.learned import Learned
    from whyformer.engine.local import Autograd, Gate
    from whyformer.engine.matrices import Product
    from whyformer.engine.mixing import Sum
    from whyformer.engine.operations import Operation
    from whyformer.engine.reductions import Reduction

Slots = tuple[Tensor | None, ...]


@dataclass(frozen=True)
class Evenly:
    """A learned map: each output's mass in equal parts to what it reads."""

    def __call__(self, op: Learned, mass: Tensor) -> Slots:
        return (op.evenly(mass),)


@dataclass(frozen=True, eq=False)
class Around:
    """A sum. Around attention: I + layer. Around anything else: the skip connection alone.

    Two branches of which one holds attention: that one. Otherwise half each. ``row_sums`` are
    what each row's layer sums to, where rows are divided by one more than that.
    """

    row_sums: Mapping[Operation, Tensor] = field(default_factory=dict)

    def __call__(self, op: Sum, mass: Tensor) -> Slots:
        if op.constant is not None:
            return (mass,)
        if op.skip is None or op.one_source:
            if op.mixes[0] != op.mixes[1]:
                return (mass, None) if op.mixes[0] else (None, mass)
            return mass / 2, mass / 2
        through: Tensor | None = mass
        if not op.mixes[1 - op.skip]:
            through = None
        elif op in self.row_sums:
            through = mass = mass / (1 + self.row_sums[op])
        return (mass, through) if op.skip == 0 else (through, mass)


@dataclass(frozen=True, eq=False)
class ByLayer:
    """A V: from queries to keys by the layer, or nowhere without one.

    Another product of activations: half each.
    """

    layers: Mapping[Operation, Tensor] = field(default_factory=dict)

    def __call__(self, op: Product, mass: Tensor) -> Slots:
        if not op.attends:
            return op.halves(mass)
        layer = self.layers.get(op)
        return (None, None) if layer is None else op.through(layer, mass)


@dataclass(frozen=True, eq=False)
class Entering(ByLayer):
    """A V of a flow: the asked rows' own mass enters by the layer, what came from above goes on.

    ``own`` is the mass that the asked rows bring to each product. It is brought in here: the pass
    itself carries only what came from above, which would otherwise drown in rounding errors, and
    of which a ``share`` goes from queries to keys by attention itself. ``sizes`` are layers of
    both signs without them, for rows that do not agree.
    """

    sizes: Mapping[Operation, Tensor] = field(default_factory=dict)
    own: Mapping[Operation, Tensor] = field(default_factory=dict)
    attention: Mapping[Operation, Tensor] = field(default_factory=dict)
    share: float = 0.0

    def __call__(self, op: Product, mass: Tensor) -> Slots:
        if not op.attends:
            return op.halves(mass)
        parts = []
        own = self.own.get(op)
        if own is not None and op in self.layers:
            own = own.reshape(mass.shape)
            entering = op.through(self.layers[op], own)
            if op in self.sizes:
                entering = tuple(map(agreed, entering, op.through(self.sizes[op], own.abs())))
            parts.append(entering)
        if self.share:
            parts.append(op.through(self.attention[op], mass * self.share))
        return tuple(added(*slots) for slots in zip(*parts, strict=True)) or (None, None)


def agreed(net: Tensor | None, size: Tensor | None) -> Tensor | None:
    """a - n |a - n| / (a + n): what rows say for a token, and against it as far as they agree.

    a is the sum of what rows say for it, n of what they say against it; ``net`` is a - n and
    ``size`` a + n. One row alone always agrees: a, or -n.
    """
    if net is None or size is None:
        return None
    agreement = net.abs() / size.clamp(min=torch.finfo(size.dtype).tiny)
    return (size + net) / 2 - agreement * (size - net) / 2


def added(*slots: Tensor | None) -> Tensor | None:
    """The sum of what there is."""
    given = [slot for slot in slots if slot is not None]
    return sum(given[1:], given[0]) if given else None


@dataclass(frozen=True)
class Halved:
    """u * v: half each."""

    def __call__(self, op: Gate, mass: Tensor) -> Slots:
        return mass / 2, mass / 2


@dataclass(frozen=True)
class OverTerms:
    """A sum or mean over axes: in equal parts to its terms, but for those that are zero."""

    def __call__(self, op: Reduction, mass: Tensor) -> Slots:
        given = op.x != 0
        count = given.sum(op.axes, keepdim=True).clamp_(min=1)
        return (op.spread(mass) * given / count,)


@dataclass(frozen=True)
class Alike:
    """What has no kind: to operands of the output's shape as it is; else by the gradient's size."""

    def __call__(self, op: Autograd, *masses: Tensor | None) -> Slots:
        (first, *rest) = masses
        alike = [first is not None and x.shape == first.shape for x in op.operands]
        if rest or not any(alike):
            signs = ({"min": 0}, {"max": 0})
            above, below = (
                op.gradient(*(None if m is None else m.clamp(**sign) for m in masses))
                for sign in signs
            )
            return tuple(
                None if a is None or b is None else a.abs() - b.abs()
                for a, b in zip(above, below, strict=True)
            )
        assert first is not None
        return tuple(first / sum(alike) if same else None for same in alike)


def mass_table(
    attention: ByLayer | None = None, row_sums: Mapping[Operation, Tensor] | None = None
) -> Table:
    """The table that carries mass; ``attention`` is its rule for A V, by default to nowhere."""
    passed = PassOn()
    return Table(
        learned=Evenly(),
        sum=Around(row_sums or {}),
        product=attention or ByLayer(),
        softmax=passed,
        normalisation=passed,
        activation=passed,
        gate=Halved(),
        reduction=OverTerms(),
        scale=passed,
        generic=Alike(),
    )
