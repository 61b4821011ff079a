"""Terms of biases as mass: each operation adds its own to what arrives, and hands both down.

A bias stands at the tokens that its layer works on. Its terms go down to the input as mass does,
but stay with their token in attention, and take a skip connection wherever there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from whyformer.engine.rules.mass import mass_table
from whyformer.engine.rules.tables import Rule, Table

if TYPE_CHECKING:
    from whyformer.engine.matrices import Product
    from whyformer.engine.mixing import Sum
    from whyformer.engine.operations import Operation

Slots = tuple[Tensor | None, ...]


@dataclass(frozen=True, eq=False)
class Adding:
    """A rule for what arrives and what the operation itself has.

    Operands that get nothing get zeros, so that the operations that made them add theirs.
    """

    rule: Rule
    own: Mapping[Operation, Tensor]
    whole: ClassVar[bool] = True

    def __call__(self, op: Operation, *masses: Tensor | None) -> Slots:
        first, *rest = masses
        if first is not None and op in self.own:
            first = first + self.own[op].reshape(first.shape)
        found = self.rule(op, first, *rest)
        operands = getattr(op, "operands", found)
        return tuple(
            torch.zeros_like(operand) if mass is None and operand is not None else mass
            for mass, operand in zip(found, operands, strict=True)
        )


@dataclass(frozen=True)
class AlongSkip:
    """A sum: all to the skip connection, where there is one; else half each."""

    def __call__(self, op: Sum, mass: Tensor) -> Slots:
        if op.constant is not None:
            return (mass,)
        if op.skip is None or op.one_source:
            return mass / 2, mass / 2
        nothing = torch.zeros_like(mass)
        return (mass, nothing) if op.skip == 0 else (nothing, mass)


@dataclass(frozen=True, eq=False)
class InPlace:
    """A V: to the same token's value, by layers that are the identity where maps are square."""

    layers: Mapping[Operation, Tensor] = field(default_factory=dict)

    def __call__(self, op: Product, mass: Tensor) -> Slots:
        layer = self.layers.get(op)
        if layer is None:
            return op.halves(mass)
        left, right = op.through(layer, mass)
        return (
            torch.zeros_like(op.u) if left is None else left,
            torch.zeros_like(op.v) if right is None else right,
        )


def bias_table(own: Mapping[Operation, Tensor], layers: Mapping[Operation, Tensor]) -> Table:
    """The table that hands terms down to the input's tokens."""
    mass = mass_table()
    rules: dict[str, Any] = {
        entry.name: getattr(mass, entry.name) for entry in fields(mass) if entry.name != "places"
    }
    rules |= {"sum": AlongSkip(), "product": InPlace(layers)}
    adding: dict[str, Any] = {name: Adding(rule, own) for name, rule in rules.items()}
    return Table(**adding)
