"""The divisions, the generic rule and the roll-out against the oracle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import oracle
from probe import (
    by_sample,
    close,
    draw,
    engine_table,
    every_table,
    recorded,
    relevances,
)
from whyformer.engine.operations import Operation, Pass
from whyformer.engine.rules.division import Division, Guarded, Offset, Stabilised

# -- divisions


def operation() -> Operation:
    """One that no model called."""
    made = Operation()
    made.current = Pass()
    return made


@pytest.mark.parametrize(
    ("divide", "expected"),
    [
        (Guarded(), oracle.guarded),
        (Offset(), oracle.reference),
        (Stabilised(), oracle.stabilised),
    ],
    ids=["guarded", "reference", "stabilised"],
)
def test_divisions(divide: Division, expected: oracle.Divide) -> None:
    z = draw(2, 3, 5)
    z[0, 1] = 0
    z[1, 0, 2] = 0
    z[1, 1] = torch.tensor([1e-12, -1e-12, 3e-9, -3e-9, 1.0])
    z[1, 2] = torch.tensor([1e-3, -1e-3, 1e3, -1e3, 0.0])
    relevance = draw(2, 3, 5)
    close(divide(operation(), relevance, z), expected(relevance, z))


def test_stabilised_division_does_not_know_the_scale() -> None:
    """R z / (z^2 + e^2 m^2) of c z is that of z, divided by c."""
    op, divide = operation(), Stabilised()
    z, relevance = draw(3, 6), draw(3, 6)
    plain = divide(op, relevance, z)
    for scale in (1e-6, -8.0, 1e6):
        scaled = divide(op, relevance, z * scale)
        close(scaled * scale, plain)


# -- the generic rule


@every_table
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cumsum(-1),
        lambda x: x.cumsum(-2),
        lambda x: x.logsumexp(-1, keepdim=True),
        lambda x: x.cumprod(-1),
    ],
    ids=["cumsum", "cumsum over tokens", "logsumexp", "cumprod"],
)
def test_generic(preset: str, table: str, function: Callable[[Tensor], Tensor]) -> None:
    """Eq. 2 by the whole Jacobian, for what has no rule; the recording says so."""
    x = draw(2, 3, 4)
    relevance = torch.randn_like(function(x))
    divide = oracle.TABLES[preset, table].divide
    (found,) = relevances(function, (x,), relevance, engine_table(preset, table))
    close(found, by_sample(lambda x, r: oracle.generic(function, x, r, divide), x, relevance))
    trace, _ = recorded(function, x)
    assert trace.seen.fallbacks


# -- the formulas that put the blocks together


@pytest.mark.parametrize("normalise_rows", [True, False])
def test_roll_out(normalise_rows: bool) -> None:
    """Eq. 13 to 16 against products of matrices, the output side on the left."""
    g, r = draw(3, 2, 4, 4), draw(3, 2, 4, 4)
    eye = torch.eye(4, dtype=torch.float64)

    def chain(layers: Tensor) -> Tensor:
        mixed = eye + layers
        if normalise_rows:
            mixed = mixed / mixed.sum(-1, keepdim=True)
        return mixed[2] @ mixed[1] @ mixed[0]

    close(
        oracle.transformer_attribution(list(g), list(r), normalise_rows),
        chain((g * r).clamp(min=0).mean(1)),
    )
    attention = draw(3, 2, 4, 4).softmax(-1)
    close(oracle.rollout(list(attention), normalise_rows), chain(attention.mean(1)))
