"""The tables beyond the paper's: epsilon, gamma, AttnLRP and the balanced gradients.

Each rule is compared with the oracle, each norm and activation in the ways that models spell it.
"""

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
import transformers as T
from torch import Tensor, nn

import oracle
import whyformer
from probe import by_sample, close, draw, pairs_by_sample, recorded, relevances
from whyformer.engine import GRADIENT, GRADIENTS, PRESETS, Table
from whyformer.engine.operations import Operation
from whyformer.engine.rules.division import Signed
from whyformer.engine.rules.learned import Epsilon, Gamma
from whyformer.engine.rules.relevance import Taylor
from whyformer.engine.rules.tables import BUILT_IN, lrp_preset

Part = Callable[..., Tensor]

SOURCE = Path(whyformer.__file__).parent
EPSILON, GAMMA, ATTNLRP = (PRESETS[name].attribution for name in ("epsilon", "gamma", "attnlrp"))
BALANCED = ("cp", "libra", "attnlrp")
#: relevance under the paper's three presets, and the balanced gradients
TABLES: dict[str, Table] = {
    **{
        f"{name}, {use}": getattr(PRESETS[name], use)
        for name in ("stable", "paper", "reference")
        for use in ("attribution", "lrp")
    },
    **{name: GRADIENTS[name] for name in BALANCED},
}
#: AttnLRP's relevance with hardly any epsilon
TINY = lrp_preset("tiny", Epsilon(1e-14), Taylor(), 1e-14).attribution


def through(part: Part, inputs: tuple[Tensor, ...], slot: Tensor, table: Table) -> list[Tensor]:
    """What arrives at each input; nothing is zero."""
    found = relevances(part, inputs, slot, table)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def derivative(part: Part, inputs: tuple[Tensor, ...], slot: Tensor) -> list[Tensor]:
    """Autograd's gradient, without the engine."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    return list(torch.autograd.grad(part(*leaves), leaves, slot))


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
        close(found, oracle.signed(relevance, z, epsilon))
        close(Signed(epsilon)(Operation(), relevance, z, 0.5), found / 2)


LEARNED: dict[str, tuple[Any, Callable[..., Tensor], dict[str, float]]] = {
    "epsilon": (Epsilon, oracle.epsilon_rule, {}),
    "large epsilon": (Epsilon, oracle.epsilon_rule, {"epsilon": 0.3}),
    "gamma": (Gamma, oracle.gamma_rule, {}),
    "large gamma": (Gamma, oracle.gamma_rule, {"gamma": 2.0, "epsilon": 0.1}),
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
        lambda u, v, r: oracle.shares(u, v, r, oracle.signed), u, v, relevance
    )
    for mine, slow in zip(found, expected, strict=True):
        close(mine, slow)
    (found_terms,) = through(lambda x: x.mean(1), (u,), relevance[:, 0], table)
    close(
        found_terms,
        by_sample(lambda x, r: oracle.term_shares(x, r, oracle.signed), u, relevance[:, 0]),
    )
    v, relevance = draw(2, 4, 5), draw(2, 3, 5)
    found = through(torch.matmul, (u, v), relevance, table)
    for mine, slow in zip(
        found, pairs_by_sample(oracle.attnlrp_product, u, v, relevance), strict=True
    ):
        close(mine, slow)


def test_softmax_by_taylor() -> None:
    x, relevance = draw(2, 3, 5), draw(2, 3, 5)
    (found,) = through(lambda x: x.softmax(-1), (x,), relevance, ATTNLRP)
    close(found, oracle.softmax_taylor(x, relevance))
    (moved,) = through(lambda x: x.softmax(1), (x,), relevance, ATTNLRP)
    close(moved, oracle.softmax_taylor(x.mT, relevance.mT).mT)
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
    expected = oracle.softmax_taylor(masked, relevance)
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


# -- norms


WEIGHT, BIAS = (torch.linspace(*ends, 4, dtype=torch.float64) for ends in ((0.5, 2), (-1, 1.5)))
SMALL = 1e-5


def mean(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


def variance(x: Tensor) -> Tensor:
    return x.var(-1, unbiased=False, keepdim=True)


def with_var_mean(x: Tensor) -> Tensor:
    var, middle = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - middle) * torch.rsqrt(var + SMALL) * WEIGHT + BIAS


def with_std_mean(x: Tensor) -> Tensor:
    std, middle = torch.std_mean(x, -1, keepdim=True)
    return WEIGHT * (x - middle) / (std + SMALL) + BIAS


def centred_first(x: Tensor) -> Tensor:
    x = x - mean(x)
    return x / (x.pow(2).mean(-1, keepdim=True) + SMALL).sqrt() * WEIGHT + BIAS


def with_a_cast(x: Tensor) -> Tensor:
    """Llama's: the norm in single precision, which a recording in double does not take."""
    kind, x = x.dtype, x.to(torch.float32)
    return WEIGHT * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + SMALL)).to(kind)


def rms(x: Tensor) -> Tensor:
    return torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + SMALL)


SPELLINGS: dict[str, dict[str, Part]] = {
    "layer_norm": {
        "module": lambda x: F.layer_norm(x, (4,), WEIGHT, BIAS, SMALL),
        "(x - mean) / sqrt(var)": lambda x: (
            (x - mean(x)) / torch.sqrt(variance(x) + SMALL) * WEIGHT + BIAS
        ),
        "torch.var, rsqrt": lambda x: WEIGHT * (
            (x - torch.mean(x, -1, True))
            * torch.rsqrt(torch.var(x, -1, correction=0, keepdim=True) + SMALL)
        ) + BIAS,
        "centred first": centred_first,
        "E x^2 - (E x)^2": lambda x: (
            (x - mean(x)) / (mean(x**2) - mean(x) ** 2 + SMALL).sqrt() * WEIGHT + BIAS
        ),
        "** -0.5": lambda x: (x - mean(x)) * (variance(x) + SMALL) ** -0.5 * WEIGHT + BIAS,
        "unsqueezed": lambda x: (
            (x - x.mean(-1).unsqueeze(-1))
            / torch.sqrt(x.var(-1, unbiased=False).unsqueeze(-1) + SMALL) * WEIGHT + BIAS
        ),
        "sums": lambda x: (
            (x - x.sum(-1, keepdim=True) / 4)
            / ((x - x.sum(-1, keepdim=True) / 4).square().sum(-1, keepdim=True) / 4 + SMALL).sqrt()
            * WEIGHT + BIAS
        ),
        "var_mean": with_var_mean,
    },
    "annotated": {  # the Annotated Transformer's: a deviation that is not the module's
        "std": lambda x: WEIGHT * (x - mean(x)) / (x.std(-1, keepdim=True) + SMALL) + BIAS,
        "sqrt(var)": lambda x: (
            WEIGHT * (x - mean(x)) / (x.var(-1, keepdim=True).sqrt() + SMALL) + BIAS
        ),
        "std_mean": with_std_mean,
    },
    "rms_norm": {
        "module": lambda x: F.rms_norm(x, (4,), WEIGHT, SMALL),
        "x * rsqrt": lambda x: WEIGHT * (x * rms(x)),
        "rsqrt * x": lambda x: rms(x) * x * WEIGHT,
        "with a cast": with_a_cast,
        "x / sqrt": lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + SMALL) * WEIGHT,
        "square": lambda x: x / (torch.square(x).mean(-1, keepdim=True) + SMALL).sqrt() * WEIGHT,
        "pow(-0.5)": lambda x: x * torch.pow(mean(x.pow(2)) + SMALL, -0.5) * WEIGHT,
        "sum": lambda x: x * torch.rsqrt((x**2).sum(-1, keepdim=True) / 4 + SMALL) * WEIGHT,
        "1 / sqrt": lambda x: x * (1 / torch.sqrt(mean(x**2) + SMALL)) * WEIGHT,
        "norm": lambda x: x / (x.norm(dim=-1, keepdim=True) ** 2 / 4 + SMALL).sqrt() * WEIGHT,
        "unsqueezed": lambda x: x * torch.rsqrt(x.pow(2).mean(-1) + SMALL)[..., None] * WEIGHT,
        "expanded": lambda x: x * rms(x).expand_as(x) * WEIGHT,
    },
    "normalize": {
        "module": lambda x: F.normalize(x, dim=-1),
        "x / norm": lambda x: x / x.norm(dim=-1, keepdim=True),
        "clamped": lambda x: x / x.norm(p=2, dim=-1, keepdim=True).clamp_min(1e-12),
        "linalg": lambda x: x / torch.linalg.vector_norm(x, dim=-1, keepdim=True),
        "sqrt(sum)": lambda x: x / (x * x).sum(-1, keepdim=True).sqrt(),
        "expanded": lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12).expand_as(x),
    },
}  # fmt: skip

ORACLES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "layer_norm": lambda x, slot: oracle.constant_deviation(x, WEIGHT, slot, SMALL, True),
    "rms_norm": lambda x, slot: oracle.constant_deviation(x, WEIGHT, slot, SMALL, False),
    "normalize": oracle.constant_norm,
}


@pytest.mark.parametrize("table", BALANCED)
@pytest.mark.parametrize("name", ORACLES)
def test_constant_deviation(name: str, table: str) -> None:
    x, slot = draw(2, 3, 4), draw(2, 3, 4)
    part = SPELLINGS[name]["module"]
    (found,) = through(part, (x,), slot, GRADIENTS[table])
    close(found, ORACLES[name](x, slot))
    (plain,) = through(part, (x,), slot, GRADIENT)
    close(plain, derivative(part, (x,), slot)[0])
    assert (plain - found).abs().max() > 0.01


@pytest.mark.parametrize("table", BALANCED)
def test_constant_deviation_of_groups(table: str) -> None:
    """A group's channels and places share a deviation; each channel has a weight of its own."""
    x, slot = draw(2, 4, 3), draw(2, 4, 3)
    (found,) = through(
        lambda x: F.group_norm(x, 2, WEIGHT, BIAS, SMALL), (x,), slot, GRADIENTS[table]
    )
    for group in (slice(0, 2), slice(2, 4)):
        expected = oracle.constant_deviation(
            x[:, group].flatten(1), WEIGHT[group].repeat_interleave(3), slot[:, group].flatten(1),
            SMALL, True,
        )  # fmt: skip
        close(found[:, group].flatten(1), expected)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    ("name", "spelling"),
    [(name, spelling) for name, ways in SPELLINGS.items() for spelling in list(ways)[1:]],
)
def test_norms_that_are_spelled_out(name: str, spelling: str, table: str) -> None:
    """Their relevance and their balanced gradients are those of the first spelling."""
    x, slot = draw(2, 3, 4), draw(2, 3, 4)
    first, other = next(iter(SPELLINGS[name].values())), SPELLINGS[name][spelling]
    close(other(x).to(x), first(x), 1e-5)
    (found,) = through(other, (x,), slot, TABLES[table])
    (expected,) = through(first, (x,), slot, TABLES[table])
    close(found, expected, 1e-9)
    if table not in BALANCED:
        close(found, slot)


# -- attention


@pytest.mark.parametrize("table", ["cp", "libra"])
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "open"])
def test_constant_attention(table: str, masked: bool) -> None:
    """Only v receives anything, A^T g; the map has a gradient of its own, g v^T."""
    q, k, v, slot = (draw(2, 3, 4) for _ in range(4))
    mask = torch.zeros(3, 3).double()
    if masked:
        mask[torch.ones(3, 3, dtype=torch.bool).triu(1)] = float("-inf")

    def part(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT + mask).softmax(-1) @ v

    trace, roots = recorded(part, q, k, v)
    weights = trace.seen.attention[-1].weights
    start = [(trace.output, slot.flatten(1))]
    for_q, for_k, for_v, for_map = trace.backward(GRADIENTS[table], start, [*roots, weights])
    assert for_q is None or not for_q.any()
    assert for_k is None or not for_k.any()
    close(for_v, (q @ k.mT + mask).softmax(-1).mT @ slot)
    close(for_map, slot @ v.mT)
    fused = through(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask, scale=1.0),
        (q, k, v), slot, GRADIENTS[table],
    )  # fmt: skip
    for mine, other in zip(fused, (torch.zeros_like(q), torch.zeros_like(k), for_v), strict=True):
        close(mine, other) if other.any() else close(mine + 1, other + 1)


@pytest.mark.parametrize("table", BALANCED)
def test_a_softmax_that_weighs_nothing_has_its_derivative(table: str) -> None:
    x, slot = draw(2, 5), draw(2, 5)
    (found,) = through(lambda x: x.softmax(-1), (x,), slot, GRADIENTS[table])
    close(found, derivative(lambda x: x.softmax(-1), (x,), slot)[0])


# -- activations


ACTIVATIONS: dict[str, list[Part]] = {
    "gelu": [
        F.gelu,
        nn.GELU(),
        lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
        lambda x: 0.5 * x * (1 + torch.erf(x * 0.5**0.5)),
    ],
    "gelu tanh": [
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (
            1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))
        ),
        lambda x: 0.5 * x * (1 + torch.tanh(x * 0.7978845608028654 * (1 + 0.044715 * x * x))),
    ],
    "silu": [F.silu, lambda x: x * torch.sigmoid(x), lambda x: x.sigmoid() * x],
    "quick gelu": [
        lambda x: x * torch.sigmoid(1.702 * x),
        lambda x: torch.sigmoid(x * 1.702) * x,
    ],
    "relu": [F.relu, torch.relu],
    "tanh": [torch.tanh, F.tanh],
    "sigmoid": [torch.sigmoid, F.sigmoid],
}  # fmt: skip

EVERY_ACTIVATION = pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name, ways in ACTIVATIONS.items() for way in range(len(ways))]
)


def near_and_far() -> Tensor:
    sizes = [0.0, 1e-300, 1e-12, 1e-8, 1e-6, 1e-5, 0.99e-4, 1.01e-4, 1e-3, 1e-2, 0.3, 1.0, 3.0, 6.0]
    values = torch.tensor(sizes, dtype=torch.float64)
    return torch.stack([values, -values])


@pytest.mark.parametrize("table", ["libra", "attnlrp"])
@EVERY_ACTIVATION
def test_constant_gate(name: str, way: int, table: str) -> None:
    """(f(x) - f(0)) / x, and its limit at zero; for cp the derivative."""
    x = near_and_far()
    part, slot = ACTIVATIONS[name][way], draw(*x.shape)
    (found,) = through(part, (x,), slot, GRADIENTS[table])
    expected = oracle.constant_gate(name, x, slot)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-12)
    (plain,) = through(part, (x,), slot, GRADIENTS["cp"])
    expected = derivative(part, (x,), slot)[0]
    torch.testing.assert_close(plain, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("table", [name for name in TABLES if name not in BALANCED])
@EVERY_ACTIVATION
def test_activations_pass_relevance_in_every_spelling(name: str, way: int, table: str) -> None:
    x, relevance = draw(2, 6), draw(2, 6)
    (found,) = through(ACTIVATIONS[name][way], (x,), relevance, TABLES[table])
    close(found, relevance)


# -- gates


GATED: dict[str, tuple[Part, int | None]] = {
    # a product of two activations, and which of them an activation function made
    "silu(u) v": (lambda u, v: F.silu(u) * v, 0),
    "u silu(v)": (lambda u, v: u * F.silu(v), 1),
    "u gelu(v), moved": (lambda u, v: u * F.gelu(v).view(2, 3, 4).clone(), 1),
    "quick gelu": (lambda u, v: (u * torch.sigmoid(1.702 * u)) * v, 0),
    "u v": (torch.mul, None),
    "silu(u) tanh(v)": (lambda u, v: F.silu(u) * torch.tanh(v), None),
}


@pytest.mark.parametrize("name", GATED)
def test_one_constant(name: str) -> None:
    """Under cp the gate is a constant; where neither or both are one, half each."""
    part, gate = GATED[name]
    inputs, slot = (draw(2, 3, 4), draw(2, 3, 4)), draw(2, 3, 4)
    found = through(part, inputs, slot, GRADIENTS["cp"])
    plain = derivative(part, inputs, slot)
    shares = (0.5, 0.5) if gate is None else (0.0, 1.0) if gate == 0 else (1.0, 0.0)
    for mine, whole, share in zip(found, plain, shares, strict=True):
        torch.testing.assert_close(mine, whole * share, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("table", ["libra", "attnlrp"])
@pytest.mark.parametrize("gate", ["silu", "gelu"])
def test_swiglu_in_halves(table: str, gate: str) -> None:
    """y = a(u) v: v gets half of a(u) g, u half of v g times its constant gate."""
    u, v, slot = draw(2, 4), draw(2, 4), draw(2, 4)
    made = getattr(F, gate)
    found = through(lambda u, v: made(u) * v, (u, v), slot, GRADIENTS[table])
    close(found[0], oracle.constant_gate(gate, u, slot * v / 2))
    close(found[1], slot * made(u) / 2)
    close((found[0] * u + found[1] * v), slot * made(u) * v)


# -- rotary positions


class DoubleRotary(nn.Module):
    """Llama's angles in double precision: its own are single, whatever the model is."""

    def __init__(self, frequencies: Tensor) -> None:
        super().__init__()
        self.frequencies = frequencies.double()

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = position_ids[..., None].double() * self.frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


@pytest.mark.parametrize("preset", ["stable", "paper"])
@pytest.mark.parametrize("head", ["LlamaForCausalLM", "LlamaForSequenceClassification"])
def test_positions_that_are_all_shifted(head: str, preset: str) -> None:
    """Rotary attention knows distances alone; so does what explains it."""
    config = T.LlamaConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64, num_labels=3,
        pad_token_id=0,
    )  # fmt: skip
    model = getattr(T, head)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    model = model.double().eval()
    model.model.rotary_emb = DoubleRotary(model.model.rotary_emb.inv_freq)
    explainer = whyformer.Explainer(model)
    ids, places = torch.randint(5, 90, (2, 9)), torch.arange(9).expand(2, 9)

    def asked(position_ids: Tensor) -> tuple[Tensor, Tensor]:
        inputs = {"input_ids": ids, "position_ids": position_ids}
        with torch.no_grad():
            logits = model(**inputs).logits
        return logits, explainer(inputs, 1, preset=preset).relevance

    logits, relevance = asked(places)
    for shifted, plain in zip(asked(places + 7), (logits, relevance), strict=True):
        assert (shifted - plain).abs().max() <= 1e-8 * plain.abs().max()
    assert (asked(places * 2)[0] - logits).abs().max() > 1e-3
