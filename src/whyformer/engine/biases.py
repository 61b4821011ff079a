"""What each bias of a recorded model gives to a target, carried down to the input's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from whyformer.engine.forward_record import Attention
from whyformer.engine.operations import Operation
from whyformer.engine.rules.biases import bias_table
from whyformer.engine.rules.tables import Table
from whyformer.engine.trace import Start, Trace

#: an operation's terms, of its output's shape
Terms = dict[Operation, Tensor]


def bias_terms(
    trace: Trace, table: Table, start: Start, of: Sequence[Tensor]
) -> tuple[list[Tensor | None], Terms]:
    """What a table of gradients puts into some slots, and b g of every constant b on the way.

    A constant is a bias, LayerNorm's beta, an embedding of positions, f(0) of an activation; one
    that is not finite, as of 1 / x, is none.
    """
    terms: Terms = {}

    def keep(operation: Operation, term: Tensor) -> None:
        finite = term.nan_to_num(0.0, 0.0, 0.0)
        terms[operation] = finite + terms[operation] if operation in terms else finite

    return trace.backward(table, start, of, constants=keep), terms


def carry_terms(
    trace: Trace, terms: Mapping[Operation, Tensor], start: Start, of: Sequence[Tensor]
) -> list[Tensor | None]:
    """Terms handed down to some values, each with the token that it stands at."""
    nothing = [(value, torch.zeros_like(slot)) for value, slot in start]
    layers: dict[Operation, Tensor] = {
        mix.product: mix.native(staying(attention))
        for attention in trace.seen.attention
        for mix in attention.mixes
    }
    return trace.backward(bias_table(terms, layers), nothing, of)


def staying(attention: Attention) -> Tensor:
    """The identity in the place of an attention map; evenly, where keys are no queries."""
    weights = attention.weights.detach()
    queries, keys = weights.shape[-2:]
    if queries != keys:
        return torch.full_like(weights, 1 / keys)
    return torch.eye(keys, dtype=weights.dtype, device=weights.device).expand_as(weights)
