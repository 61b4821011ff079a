"""The paper's lemmas as properties, and its exploding example."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product as indices

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from probe import (
    close,
    draw,
    engine_table,
    every_preset,
    every_table,
    relevances,
)
from whyformer.engine import PRESETS, Table

property_test = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

nonzero = st.one_of(st.floats(0.05, 8), st.floats(-8, -0.05))
numbers = st.one_of(st.just(0.0), nonzero)


def tensors(*shape: int, elements: st.SearchStrategy[float] = numbers) -> st.SearchStrategy[Tensor]:
    size = math.prod(shape)
    return st.lists(elements, min_size=size, max_size=size).map(
        lambda values: torch.tensor(values, dtype=torch.float64).view(shape)
    )


def sums(tensor: Tensor) -> Tensor:
    return tensor.flatten(1).sum(1)


def with_total(relevance: Tensor, total: float) -> Tensor:
    """Relevance of both signs that sums to a given total in every sample."""
    moved = relevance.flatten(1).clone()
    moved[:, 0] += total - moved.sum(1)
    return moved.view_as(relevance)


@property_test
@given(u=tensors(2, 2, 3), total=tensors(2, 2, 3, elements=nonzero), relevance=tensors(2, 2, 3))
def test_lemma_1_sums_conserve(u: Tensor, total: Tensor, relevance: Tensor) -> None:
    """Lemma 1 (i): sum R^u + sum R^v = sum R for u + v, with Eq. 6 alone."""
    ru, rv = relevances(torch.add, (u, total - u), relevance, PRESETS["paper"].lrp)
    torch.testing.assert_close(sums(ru) + sums(rv), sums(relevance), rtol=1e-9, atol=1e-9)


@property_test
@given(u=tensors(2, 2, 3), v=tensors(2, 3, 2), relevance=tensors(2, 2, 2))
def test_lemma_1_products_double(u: Tensor, v: Tensor, relevance: Tensor) -> None:
    """Lemma 1 (ii): sum R^u = sum R^v = sum R for u v; their halves conserve it."""
    assume((u @ v).abs().min() > 0.01)
    whole = relevances(torch.matmul, (u, v), relevance, PRESETS["paper"].lrp)
    halves = relevances(torch.matmul, (u, v), relevance, PRESETS["paper"].attribution)
    for part in whole:
        torch.testing.assert_close(sums(part), sums(relevance), rtol=1e-9, atol=1e-8)
    torch.testing.assert_close(
        sums(halves[0]) + sums(halves[1]), sums(relevance), rtol=1e-9, atol=1e-8
    )


@every_preset
@property_test
@given(
    u=tensors(2, 2, 3),
    z=tensors(2, 2, 3, elements=nonzero),
    relevance=tensors(2, 2, 3),
    total=nonzero,
)
def test_lemma_2(preset: str, u: Tensor, z: Tensor, relevance: Tensor, total: float) -> None:
    """Lemma 2: the normalised sums add up to sum R, each between 0 and sum R.

    The bound is meant for sum R >= 0; below zero it holds mirrored, so shares are tested.
    """
    relevance = with_total(relevance, total)
    found = relevances(torch.add, (u, z - u), relevance, PRESETS[preset].attribution)
    shares = torch.stack([sums(part) / total for part in found])
    tolerance = 1e-5 if preset == "reference" else 1e-8
    assert (shares.sum(0) - 1).abs().max() <= tolerance
    assert shares.min() >= -tolerance
    assert shares.max() <= 1 + tolerance


@pytest.mark.parametrize("preset", ["paper", "stable"])
@property_test
@given(
    x=tensors(2, 3, 2),
    z=tensors(2, 1, 2, elements=nonzero),
    relevance=tensors(2, 2),
    total=nonzero,
)
def test_lemma_2_for_many_terms(
    preset: str, x: Tensor, z: Tensor, relevance: Tensor, total: float
) -> None:
    """Mean pooling: conserved, and every token's sum between 0 and sum R."""
    x = torch.cat([x, z - x.sum(1, keepdim=True)], 1)
    relevance = with_total(relevance, total)
    (found,) = relevances(lambda x: x.mean(1), (x,), relevance, PRESETS[preset].attribution)
    shares = found.sum(-1) / total
    assert (shares.sum(1) - 1).abs().max() <= 1e-8
    assert shares.min() >= -1e-8
    assert shares.max() <= 1 + 1e-8


def alone_as_together(
    part: Callable[..., Tensor], inputs: tuple[Tensor, ...], relevance: Tensor, table: Table
) -> None:
    together = relevances(part, inputs, relevance, table)
    for i in range(len(relevance)):
        one = slice(i, i + 1)
        alone = relevances(part, tuple(x[one] for x in inputs), relevance[one], table)
        for whole, single in zip(together, alone, strict=True):
            torch.testing.assert_close(
                whole[one], single, rtol=1e-6, atol=1e-6 * float(single.abs().max())
            )


@every_table
@settings(property_test, max_examples=8)
@given(seed=st.integers(0, 2**32), zeros=st.sampled_from([0.0, 0.2, 0.6]))
def test_a_batch_is_its_samples(preset: str, table: str, seed: int, zeros: float) -> None:
    """No rule looks across samples: batch and samples agree, zeros and all."""
    torch.manual_seed(seed)
    x, skip = (F.dropout(draw(3, 3, 4), zeros) for _ in range(2))
    weight, bias = draw(4, 4), draw(4)

    def part(x: Tensor, skip: Tensor) -> Tensor:
        y = F.linear(x, weight, bias) + skip
        return (y @ y.mT @ x).mean(1)

    alone_as_together(part, (x, skip), draw(3, 4), engine_table(preset, table))


@every_table
def test_a_batch_is_its_samples_without_features(preset: str, table: str) -> None:
    """The only axis that is left of a single score is the batch: nothing runs over it."""
    u, v = draw(3, 2, 4), draw(3, 2, 4)
    alone_as_together(
        lambda u, v: (u.sum((1, 2)) + v.sum((1, 2))).unsqueeze(-1),
        (u, v),
        draw(3, 1),
        engine_table(preset, table),
    )


@pytest.mark.parametrize(("a", "b"), list(indices([5.0, 12.0, 18.0], repeat=2)))
def test_exploding_example(a: float, b: float) -> None:
    """u = e^a, v = 1 - e^a: Eq. 6 explodes, its normalisation does not, the total stays."""
    u = torch.tensor([[[math.exp(a), math.exp(b)]]], dtype=torch.float64)
    v = 1 - u
    relevance = torch.ones_like(u)
    ru, rv = relevances(torch.add, (u, v), relevance, PRESETS["paper"].lrp)
    close(ru, u, 1e-6)
    close(rv, v, 1e-6)
    assert ru.min() > 100
    assert rv.max() < -100
    for preset in ("stable", "paper", "reference"):
        ru, rv = relevances(torch.add, (u, v), relevance, PRESETS[preset].attribution)
        assert 0 <= float(ru.sum()) <= 2
        assert 0 <= float(rv.sum()) <= 2
        assert float(ru.sum() + rv.sum()) == pytest.approx(2, abs=1e-6)
        assert max(float(ru.abs().max()), float(rv.abs().max())) <= 2
