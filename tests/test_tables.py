"""The tables beyond the paper's: epsilon, gamma and AttnLRP, each rule beside the oracle's."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import oracle
import oracle_later
import whyformer
from probe import Part, by_sample, close, derivative, draw, pairs_by_sample, through
from whyformer.engine import GRADIENTS, PRESETS
from whyformer.engine.operations import Operation
from whyformer.engine.rules.division import Signed
from whyformer.engine.rules.learned import Epsilon, Gamma
from whyformer.engine.rules.relevance import Taylor
from whyformer.engine.rules.tables import BUILT_IN, lrp_preset

SOURCE = Path(whyformer.__file__).parent
EPSILON, GAMMA, ATTNLRP = (PRESETS[name].attribution for name in ("epsilon", "gamma", "attnlrp"))
#: AttnLRP's relevance with hardly any epsilon
TINY = lrp_preset("tiny", Epsilon(1e-14), Taylor(), 1e-14).attribution


# -- tables are values


@pytest.mark.parametrize("name", [preset.name for preset in BUILT_IN])
def test_presets_are_frozen_and_hashable(name: str) -> None:
    preset: Any = PRESETS[name]
    for table in (preset, preset.attribution, preset.lrp, preset.conventions):
        assert hash(table) == hash(dataclasses.replace(table))
        assert table == dataclasses.replace(table)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(table, dataclasses.fields(table)[0].name, None)


@pytest.mark.parametrize("name", GRADIENTS)
def test_tables_of_gradients_are_frozen_and_hashable(name: str) -> None:
    table: Any = GRADIENTS[name]
    assert hash(table) == hash(dataclasses.replace(table))
    for kind in dataclasses.fields(table):
        if kind.name != "places":
            rule = getattr(table, kind.name)
            assert hash(rule) == hash(dataclasses.replace(rule))
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.sum = table.product


def test_no_code_asks_for_the_name_of_a_preset() -> None:
    """What a preset means is in its tables and conventions; only registering compares names."""
    names = "|".join(preset.name for preset in BUILT_IN if preset.name != "attnlrp")
    asks = re.compile(rf"preset\.name\s*(==|!=| in )|(==|!=)\s*[\"']({names})[\"']")
    defined = SOURCE / "engine" / "rules" / "tables.py"
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != defined
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if asks.search(line)
    ]
    assert not found, "\n".join(found)


# -- epsilon, gamma, AttnLRP


def test_signed_division() -> None:
    z, relevance = draw(2, 3, 5), draw(2, 3, 5)
    z[0, 1] = 0
    z[1, 1] = torch.tensor([1e-12, -1e-12, 3e-6, -3e-6, -0.0])
    for epsilon in (1e-6, 0.1):
        found = Signed(epsilon)(Operation(), relevance, z)
        close(found, oracle_later.signed(relevance, z, epsilon))
        close(Signed(epsilon)(Operation(), relevance, z, 0.5), found / 2)


LEARNED: dict[str, tuple[Any, Callable[..., Tensor], dict[str, float]]] = {
    "epsilon": (Epsilon, oracle_later.epsilon_rule, {}),
    "large epsilon": (Epsilon, oracle_later.epsilon_rule, {"epsilon": 0.3}),
    "gamma": (Gamma, oracle_later.gamma_rule, {}),
    "large gamma": (Gamma, oracle_later.gamma_rule, {"gamma": 2.0, "epsilon": 0.1}),
}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", LEARNED)
def test_learned_rules(name: str, bias: bool) -> None:
    """The bias has its part in the epsilon rule's denominator, and in gamma's sign alone."""
    rule, expected, options = LEARNED[name]
    table = dataclasses.replace(EPSILON, learned=rule(**options), places=())
    x, weight, relevance = draw(2, 3, 5), draw(4, 5), draw(2, 3, 4)
    offset = draw(4) if bias else torch.zeros(4).double()
    x[0, 0] = 0
    (found,) = through(lambda x: F.linear(x, weight, offset), (x,), relevance, table)
    close(found, expected(x, weight, offset, relevance, **options))


@pytest.mark.parametrize("name", ["epsilon", "gamma"])
@pytest.mark.parametrize("pixels", [True, False], ids=["pixels", "deeper"])
def test_learned_rules_of_convolutions(name: str, pixels: bool) -> None:
    """These presets know no bounds: the layer that reads the pixels has the rule of the others."""
    _, expected, _ = LEARNED[name]
    x, kernel, bias = draw(2, 2, 4, 6), draw(3, 2, 2, 2), draw(3)
    matrix, shape = oracle.convolution_matrix(kernel, (4, 6), 2)
    relevance, offset = draw(2, *shape), bias.repeat_interleave(shape[1] * shape[2])

    def part(x: Tensor) -> Tensor:
        return F.conv2d(x if pixels else F.relu6(x), kernel, bias, 2)

    (found,) = through(part, (x,), relevance, PRESETS[name].attribution)
    read = x if pixels else F.relu6(x)
    close(
        found,
        by_sample(
            lambda x, r: expected(x.flatten(), matrix, offset, r.flatten()).view_as(x),
            read,
            relevance,
        ),
    )


@pytest.mark.parametrize("name", ["epsilon", "gamma", "attnlrp"])
def test_sums_and_products_by_epsilon(name: str) -> None:
    table = PRESETS[name].attribution
    u, v, relevance = draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4)
    u[0, 0], v[0, 0] = 0, 0
    found = through(torch.add, (u, v), relevance, table)
    expected = pairs_by_sample(
        lambda u, v, r: oracle.shares(u, v, r, oracle_later.signed), u, v, relevance
    )
    for mine, slow in zip(found, expected, strict=True):
        close(mine, slow)
    (found_terms,) = through(lambda x: x.mean(1), (u,), relevance[:, 0], table)
    close(
        found_terms,
        by_sample(lambda x, r: oracle.term_shares(x, r, oracle_later.signed), u, relevance[:, 0]),
    )
    v, relevance = draw(2, 4, 5), draw(2, 3, 5)
    found = through(torch.matmul, (u, v), relevance, table)
    for mine, slow in zip(
        found, pairs_by_sample(oracle_later.attnlrp_product, u, v, relevance), strict=True
    ):
        close(mine, slow)


def test_softmax_by_taylor() -> None:
    x, relevance = draw(2, 3, 5), draw(2, 3, 5)
    (found,) = through(lambda x: x.softmax(-1), (x,), relevance, ATTNLRP)
    close(found, oracle_later.softmax_taylor(x, relevance))
    (moved,) = through(lambda x: x.softmax(1), (x,), relevance, ATTNLRP)
    close(moved, oracle_later.softmax_taylor(x.mT, relevance.mT).mT)
    for name in ("epsilon", "gamma"):
        (passed,) = through(lambda x: x.softmax(-1), (x,), relevance, PRESETS[name].attribution)
        close(passed, relevance)


def test_softmax_by_taylor_behind_a_mask() -> None:
    """Scores that are hidden get nothing, though they be minus infinity."""
    x, relevance = draw(2, 3, 5), draw(2, 3, 5)
    hidden = torch.ones(3, 5, dtype=torch.bool).triu(2)
    masked = x.masked_fill(hidden, float("-inf"))
    (found,) = through(
        lambda x: x.masked_fill(hidden, float("-inf")).softmax(-1), (x,), relevance, ATTNLRP
    )
    expected = oracle_later.softmax_taylor(masked, relevance)
    assert not expected[:, hidden].any()
    close(found, expected)


# -- AttnLRP's two forms: with R = y g at the output, is R = x g at the input?


def both_forms(part: Part, inputs: tuple[Tensor, ...]) -> tuple[list[Tensor], list[Tensor]]:
    """Relevance, and gradient times input, from the same start R = y g."""
    y = part(*inputs)
    slot = torch.randn_like(y)
    gradients = through(part, inputs, slot, GRADIENTS["attnlrp"])
    products = [x * g for x, g in zip(inputs, gradients, strict=True)]
    return through(part, inputs, y * slot, TINY), products


def attention(x: Tensor, *weights: Tensor) -> Tensor:
    q, k, v = (F.linear(x, weight, weight[:, 0]) for weight in weights)
    return ((q @ k.mT) / math.sqrt(q.shape[-1])).softmax(-1) @ v


def block(x: Tensor, *weights: Tensor) -> Tensor:
    """Attention and SwiGLU, each behind an RMSNorm and around it a skip connection."""
    x = x + attention(F.rms_norm(x, x.shape[-1:], weights[0][0]), *weights[:3])
    h = F.rms_norm(x, x.shape[-1:], weights[1][0])
    return x + F.linear(F.silu(F.linear(h, weights[3])) * F.linear(h, weights[4]), weights[5])


WEIGHTS = [torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(i))
           for i in range(6)]  # fmt: skip

EQUAL: dict[str, tuple[Part, list[tuple[int, ...]]]] = {
    "product": (torch.matmul, [(2, 3, 4), (2, 4, 5)]),
    "elementwise product": (torch.mul, [(2, 3, 4), (2, 3, 4)]),
    "softmax": (lambda x: x.softmax(-1), [(2, 3, 5)]),
    "linear with a bias": (lambda x: F.linear(x, WEIGHTS[0], WEIGHTS[1][0]), [(2, 3, 4)]),
    "sum": (torch.add, [(2, 3, 4), (2, 3, 4)]),
    "mean": (lambda x: x.mean(1), [(2, 3, 4)]),
    "RMSNorm": (lambda x: F.rms_norm(x, (4,), WEIGHTS[0][0]), [(2, 3, 4)]),
    "activation": (F.gelu, [(2, 3, 4)]),
    "attention": (lambda x: attention(x, *WEIGHTS[:3]), [(2, 3, 4)]),
    "block": (lambda x: block(x, *WEIGHTS), [(2, 3, 4)]),
    "two blocks": (lambda x: block(block(x, *WEIGHTS), *WEIGHTS[::-1]).mean(1), [(2, 3, 4)]),
}


@pytest.mark.parametrize("name", EQUAL)
def test_attnlrp_is_gradient_times_input(name: str) -> None:
    """Element by element, as epsilon goes to zero, for all that is linear in its operands,
    softmax, RMSNorm, activations with f(0) = 0, and what is made of these."""
    part, shapes = EQUAL[name]
    for relevance, product in zip(*both_forms(part, tuple(draw(*s) for s in shapes)), strict=True):
        close(relevance, product, 1e-7)


def test_where_attnlrp_is_not_gradient_times_input() -> None:
    """Relevance passes a LayerNorm unchanged, while its gradient subtracts a mean: without a
    bias each row has the same sum, and other elements. A bias that is added, and f(0) of an
    activation, keep relevance that the gradient form drops."""
    x = draw(2, 3, 4)
    (relevance,), (product,) = both_forms(lambda x: F.layer_norm(x, (4,), WEIGHTS[0][0]), (x,))
    close(relevance.sum(-1), product.sum(-1), 1e-7)
    assert (relevance - product).abs().max() > 0.1
    for part in (torch.sigmoid, lambda x: x + WEIGHTS[0][0]):
        (relevance,), (product,) = both_forms(part, (x,))
        assert (relevance - product).abs().max() > 0.1


def test_attnlrp_quarters_queries_and_keys() -> None:
    """Each product halves: the gradient of v once, those of q and k twice."""
    q, k, v, slot = (draw(2, 3, 4) for _ in range(4))

    def part(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT).softmax(-1) @ v

    found = through(part, (q, k, v), slot, GRADIENTS["attnlrp"])
    plain = derivative(part, (q, k, v), slot)
    for mine, whole, share in zip(found, plain, (0.25, 0.25, 0.5), strict=True):
        close(mine, whole * share)
