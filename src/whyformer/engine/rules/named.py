"""Tables of the methods that the paper names: Excitation Backprop, RAP and AGF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

from whyformer.engine.rules.contributions import (
    AbsoluteContributions,
    Guided,
    KeepProducts,
    RelativeContributions,
    Size,
    SizeShares,
    SizeTerms,
    ToValues,
    absolute,
    positive,
)
from whyformer.engine.rules.division import Stabilised
from whyformer.engine.rules.learned import PositiveActivations
from whyformer.engine.rules.relevance import ByDerivative
from whyformer.engine.rules.tables import Rule, Table, gradients, relevance

if TYPE_CHECKING:
    from whyformer.engine.operations import Operation


def by_size(size: Size, learned: Rule) -> Table:
    """A table that shares everything out by the sizes of contributions."""
    return relevance(
        learned=learned,
        sum=SizeShares(size),
        reduction=SizeTerms(size),
        product=ToValues(size),
        generic=ByDerivative(Stabilised()),
    )


#: Zhang et al. 2016: x^+ w^+ as the probability of a way from an output to an input
EXCITATION = by_size(positive, PositiveActivations())

#: Nam et al. 2020, but for the head
RAP = by_size(absolute, RelativeContributions())


@dataclass(frozen=True, eq=False)
class Is:
    """The place of one operation."""

    operation: Operation | None

    def __call__(self, op: Operation) -> bool:
        return op is self.operation


def rap_table(head: Operation | None) -> Table:
    """RAP: the head, a learned map, by absolute contributions, and what lies below relatively."""
    places = ((Is(head), AbsoluteContributions()),)
    return replace(RAP, places=(*places, *RAP.places))


def keeping_products(products: dict[Operation, Tensor]) -> Table:
    """The gradient, which leaves what AGF needs of every Linear in ``products``."""
    return gradients(learned=KeepProducts(products))


def agf_table(products: Mapping[Operation, Tensor]) -> Table:
    """Gur et al. 2021: absolute contributions, guided by the products of values and gradients."""
    return by_size(absolute, Guided(products))
