"""Learned matrices against the oracle: Eq. 4, Eq. 5 and its three products, z^B."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import oracle
from probe import (
    by_sample,
    close,
    draw,
    engine_table,
    every_table,
    learned_tolerance,
    relevances,
)
from whyformer.engine.learned import Linear
from whyformer.engine.operations import Pass
from whyformer.engine.rules.learned import PositivePairsFast

# -- learned matrices


@every_table
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_linear(preset: str, table: str, bias: bool) -> None:
    """Eq. 5, Eq. 4 or the separate denominators; the bias takes no part."""
    x, weight = draw(2, 3, 5), draw(4, 5)
    offset = draw(4) if bias else None
    relevance = draw(2, 3, 4)
    expected = oracle.TABLES[preset, table]
    (found,) = relevances(
        lambda x: F.linear(x, weight, offset), (x,), relevance, engine_table(preset, table)
    )
    close(
        found,
        expected.learned(x, weight, relevance, expected.divide_learned),
        learned_tolerance(preset, table),
    )


@every_table
def test_rows_without_relevance_are_skipped(preset: str, table: str) -> None:
    x, weight, bias = draw(2, 6, 5), draw(4, 5), draw(4)
    relevance = draw(2, 6, 4)
    relevance[:, 1:] = 0
    expected = oracle.TABLES[preset, table]
    (found,) = relevances(
        lambda x: F.linear(x, weight, bias), (x,), relevance, engine_table(preset, table)
    )
    close(
        found,
        expected.learned(x, weight, relevance, expected.divide_learned),
        learned_tolerance(preset, table),
    )
    assert not found[:, 1:].any()


@every_table
@pytest.mark.parametrize(
    ("part", "square"),
    [
        (lambda x, w: x @ w.mT, False),
        (lambda x, w: torch.addmm(torch.ones(4).to(x), x.flatten(0, 1), w.mT).view(2, 3, 4), False),
        (lambda x, w: torch.einsum("bnd,od->bno", x, w), False),
        (lambda x, w: F.conv1d(x.mT, w.unsqueeze(-1), torch.ones(4).to(x)).mT, False),
        (lambda x, w: (w @ x.mT).mT, False),
        (lambda x, w: torch.einsum("od,bnd->bno", w, x), False),
        (lambda x, w: x @ w, True),
    ],
    ids=["matmul", "addmm", "einsum", "conv1d", "left matmul", "left einsum", "square"],
)
def test_other_learned_maps(
    part: Callable[[Tensor, Tensor], Tensor], square: bool, preset: str, table: str
) -> None:
    """Whatever the function, a learned matrix has the rule of a Linear."""
    x, weight = draw(2, 3, 5), draw(5 if square else 4, 5)
    relevance = draw(2, 3, len(weight))
    expected = oracle.TABLES[preset, table]
    (found,) = relevances(lambda x: part(x, weight), (x,), relevance, engine_table(preset, table))
    matrix = weight.mT if square else weight
    close(
        found,
        expected.learned(x, matrix, relevance, expected.divide_learned),
        learned_tolerance(preset, table),
    )


@every_table
@pytest.mark.parametrize("padding", [0, 1])
def test_pixels(preset: str, table: str, padding: int) -> None:
    """z^B: bounds of each sample, no bias, one denominator."""
    x, kernel, bias = draw(2, 2, 4, 6), draw(3, 2, 2, 2), draw(3)
    matrix, shape = oracle.convolution_matrix(kernel, (4, 6), 2, padding)
    relevance = draw(2, *shape)
    divide = oracle.TABLES[preset, table].divide_learned
    (found,) = relevances(
        lambda x: F.conv2d(x, kernel, bias, 2, padding),
        (x,),
        relevance,
        engine_table(preset, table),
    )
    expected = by_sample(
        lambda x, r: oracle.bounded_input(x.flatten(), matrix, r.flatten(), divide), x, relevance
    )
    close(found, expected.view_as(x))


@every_table
def test_pixels_read_by_a_linear(preset: str, table: str) -> None:
    """Patches cut out by reshaping are still pixels."""
    x, weight, bias = draw(2, 1, 4, 4), draw(3, 4), draw(3)
    relevance = draw(2, 4, 3)

    def patches(x: Tensor) -> Tensor:
        cut = x.reshape(-1, 1, 2, 2, 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(-1, 4, 4)
        return F.linear(cut, weight, bias)

    matrix, _ = oracle.convolution_matrix(weight.view(3, 1, 2, 2), (4, 4), 2)
    divide = oracle.TABLES[preset, table].divide_learned
    (found,) = relevances(patches, (x,), relevance, engine_table(preset, table))
    expected = by_sample(
        lambda x, r: oracle.bounded_input(x.flatten(), matrix, r.mT.flatten(), divide), x, relevance
    )
    close(found, expected.view_as(x))


@every_table
def test_second_convolution_is_an_ordinary_learned_matrix(preset: str, table: str) -> None:
    x, kernel = draw(2, 2, 3, 3), draw(2, 2, 2, 2)
    matrix, shape = oracle.convolution_matrix(kernel, (3, 3), 1)
    relevance = draw(2, *shape)
    expected = oracle.TABLES[preset, table]
    (found,) = relevances(
        lambda x: F.conv2d(F.gelu(x), kernel), (x,), relevance, engine_table(preset, table)
    )
    by_hand = by_sample(
        lambda x, r: expected.learned(
            F.gelu(x).flatten(), matrix, r.flatten(), expected.divide_learned
        ),
        x,
        relevance,
    )
    close(found, by_hand.view_as(x), learned_tolerance(preset, table))


# -- Eq. 5 in three products


def every_pair(x: Tensor, weight: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 5 with all pairs written out, and each unit's positive share p / (p + n)."""
    pairs = torch.einsum("rj,ij->rij", x, weight)
    kept = torch.where(pairs >= 0, pairs, 0)
    z, whole = kept.sum(-1), pairs.abs().sum(-1)
    s = torch.where(z == 0, 0, relevance / z)
    share = torch.where(whole == 0, 0, z / whole)
    return torch.einsum("rij,ri->rj", kept, s), share


def fast(x: Tensor, weight: Tensor, bias: Tensor | None, relevance: Tensor) -> Tensor:
    operation = Linear(lambda x: F.linear(x, weight, bias), weight, bias)
    operation.current = Pass()
    operation.run(x)
    return PositivePairsFast()(operation, relevance)[0]


def mostly_negative(rows: int, units: int, inputs: int, positive: float) -> tuple[Tensor, Tensor]:
    """Operands whose pairs are negative but for a part."""
    x, weight = draw(rows, inputs), draw(units, inputs).abs()
    weight = -weight * x[0].sign()
    x = x.abs() * x[0].sign()
    weight[:, : max(1, int(positive * inputs))] *= -1
    return x, weight


@pytest.mark.parametrize("bias", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("case", ["mixed", "mostly negative", "all positive"])
def test_three_products_are_every_pair(case: str, bias: float) -> None:
    """The difference is what the 1e-5 of |x| |w| takes: R_i times 1e-5 / (2 share)."""
    if case == "mixed":
        x, weight = draw(6, 40), draw(30, 40)
    elif case == "mostly negative":
        x, weight = mostly_negative(6, 30, 40, 0.03)
    else:
        x, weight = draw(6, 40).abs(), draw(30, 40).abs()
    relevance = draw(6, 30)
    found = fast(x, weight, bias * draw(30) if bias else None, relevance)
    exact, share = every_pair(x, weight, relevance)
    allowed = (relevance.abs() * 1e-5 / share).sum(-1)
    assert ((found - exact).abs().sum(-1) <= allowed + 1e-12).all()


def test_three_products_in_single_precision() -> None:
    """Rounding stays below one part in a thousand for ordinary units."""
    x, weight, bias, relevance = draw(4, 300), draw(200, 300), draw(200), draw(4, 200)
    exact, share = every_pair(x, weight, relevance)
    assert share.min() > 0.2
    found = fast(x.float(), weight.float(), bias.float(), relevance.float())
    close(found.double(), exact, 1e-3)


def test_three_products_where_single_precision_cancels() -> None:
    """One pair in a hundred is positive: the halves cancel, and the map still holds."""
    x, weight = mostly_negative(4, 200, 300, 0.01)
    relevance = draw(4, 200).abs()
    exact, share = every_pair(x, weight, relevance)
    assert share.max() < 0.1
    found = fast(x.float(), weight.float(), None, relevance.float()).double()
    assert (found - exact).abs().sum() <= 0.02 * exact.abs().sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_three_products_of_units_with_no_positive_pair(dtype: torch.dtype, bias: bool) -> None:
    """Such units drop their relevance, but for rounding errors."""
    x, weight = draw(4, 50), draw(20, 50).abs()
    weight, x = -weight * x[0].sign(), x.abs() * x[0].sign()
    relevance = draw(4, 20).abs()
    offset = draw(20).to(dtype) if bias else None
    exact, _ = every_pair(x, weight, relevance)
    assert not exact.any()
    found = fast(x.to(dtype), weight.to(dtype), offset, relevance.to(dtype))
    leak = 0.05 if dtype is torch.float32 else 1e-9
    assert (found.abs().sum(-1) <= leak * relevance.sum(-1)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_three_products_of_zero_rows(dtype: torch.dtype, bias: bool) -> None:
    x, weight, relevance = draw(3, 7), draw(5, 7), draw(3, 5)
    x[1] = 0
    weight[2] = 0
    offset = draw(5).to(dtype) if bias else None
    exact, _ = every_pair(x, weight, relevance)
    found = fast(x.to(dtype), weight.to(dtype), offset, relevance.to(dtype)).double()
    assert not found[1].any()
    close(found, exact, 2e-3)
