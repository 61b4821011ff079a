"""Tables of the methods that the paper names: Excitation Backprop and its kin."""

from __future__ import annotations

from whyformer.engine.rules.contributions import Size, SizeShares, SizeTerms, ToValues, positive
from whyformer.engine.rules.division import Stabilised
from whyformer.engine.rules.learned import PositiveActivations
from whyformer.engine.rules.relevance import ByDerivative
from whyformer.engine.rules.tables import Rule, Table, relevance


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
