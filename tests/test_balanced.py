"""The balanced gradients of norms, attention, activations and gates, each beside the oracle's.

Norms and activations come in the ways that models spell them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import oracle_later
from probe import Part, close, derivative, draw, recorded, through
from whyformer.engine import GRADIENT, GRADIENTS, PRESETS, Table

# -- norms


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
    "layer_norm": lambda x, slot: oracle_later.constant_deviation(x, WEIGHT, slot, SMALL, True),
    "rms_norm": lambda x, slot: oracle_later.constant_deviation(x, WEIGHT, slot, SMALL, False),
    "normalize": oracle_later.constant_norm,
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
        expected = oracle_later.constant_deviation(
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
    expected = oracle_later.constant_gate(name, x, slot)
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
    close(found[0], oracle_later.constant_gate(gate, u, slot * v / 2))
    close(found[1], slot * made(u) / 2)
    close((found[0] * u + found[1] * v), slot * made(u) * v)
