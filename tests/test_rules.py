"""Each rule of the engine against the oracle, through the functions that models call."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product as indices

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import oracle
from whyformer.engine import PRESETS, Rules, Trace, record, rules
from whyformer.engine.learned import Linear
from whyformer.engine.operations import Operation, Scratch, Switch

TABLES = sorted(oracle.TABLES)
every_table = pytest.mark.parametrize(("preset", "table"), TABLES)
every_preset = pytest.mark.parametrize("preset", sorted(PRESETS))
property_test = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def absolute(weight: Tensor, scratch: Callable[[str, Tensor], Tensor]) -> Tensor:
    return weight.abs()


class Probe(nn.Module):
    """Any function as a model; the attention beside it is what makes it a Transformer."""

    def __init__(self, part: Callable[..., Tensor]) -> None:
        super().__init__()
        self.part = part

    def forward(self, *inputs: Tensor) -> Tensor:
        self.roots = inputs
        flat = inputs[0].flatten(1)[:, :2].unsqueeze(-1)
        (flat @ flat.mT).softmax(-1) @ flat
        return self.part(*inputs).flatten(1)


def recorded(part: Callable[..., Tensor], *inputs: Tensor) -> tuple[Trace, tuple[Tensor, ...]]:
    probe = Probe(part)
    return record(probe, inputs, absolute), probe.roots


def relevances(
    part: Callable[..., Tensor], inputs: tuple[Tensor, ...], relevance: Tensor, table: Rules
) -> tuple[Tensor, ...]:
    """The relevance of every input of a part, given that of its output."""
    trace, roots = recorded(part, *inputs)
    trace.switch.rules = table
    return torch.autograd.grad(trace.logits, roots, relevance.flatten(1))


def engine_table(preset: str, table: str) -> Rules:
    return getattr(PRESETS[preset], table)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def by_sample(rule: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    return torch.stack([rule(*sample) for sample in zip(*tensors, strict=True)])


def pairs_by_sample(rule: Callable[..., oracle.Pair], *tensors: Tensor) -> oracle.Pair:
    found = [rule(*sample) for sample in zip(*tensors, strict=True)]
    return torch.stack([u for u, _ in found]), torch.stack([v for _, v in found])


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(
        found, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())
    )


def learned_tolerance(preset: str, table: str) -> float:
    """The stable preset's Eq. 5 takes three products and gives 1e-5 of |x| |w| away."""
    return 1e-3 if (preset, table) == ("stable", "attribution") else 1e-9


# -- divisions


@pytest.mark.parametrize(
    ("divide", "expected"),
    [
        (rules.guarded, oracle.guarded),
        (rules.offset, oracle.reference),
        (rules.stabilised, oracle.stabilised),
    ],
    ids=["guarded", "reference", "stabilised"],
)
def test_divisions(divide: rules.Division, expected: oracle.Divide) -> None:
    z = draw(2, 3, 5)
    z[0, 1] = 0
    z[1, 0, 2] = 0
    z[1, 1] = torch.tensor([1e-12, -1e-12, 3e-9, -3e-9, 1.0])
    z[1, 2] = torch.tensor([1e-3, -1e-3, 1e3, -1e3, 0.0])
    relevance = draw(2, 3, 5)
    operation = Operation()
    operation.switch = Switch(absolute, Scratch())
    close(divide(operation, relevance, z).clone(), expected(relevance, z))


def test_stabilised_division_does_not_know_the_scale() -> None:
    """R z / (z^2 + e^2 m^2) of c z is that of z, divided by c."""
    operation = Operation()
    operation.switch = Switch(absolute, Scratch())
    z, relevance = draw(3, 6), draw(3, 6)
    plain = rules.stabilised(operation, relevance, z).clone()
    for scale in (1e-6, -8.0, 1e6):
        scaled = rules.stabilised(operation, relevance, z * scale).clone()
        close(scaled * scale, plain)


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
    operation.switch = Switch(absolute, Scratch())
    operation.run(x)
    return rules.positive_pairs_fast(operation, relevance, rules.guarded)


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


# -- sums


@every_table
def test_sum(preset: str, table: str) -> None:
    """Eq. 6, normalised or not, over one sample at a time."""
    u, v, relevance = draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4)
    u[0, 0], v[0, 0] = 0, 0
    expected = oracle.TABLES[preset, table]
    found = relevances(torch.add, (u, v), relevance, engine_table(preset, table))
    by_hand = pairs_by_sample(
        lambda u, v, r: expected.sum(u, v, r, expected.divide), u, v, relevance
    )
    for one, other in zip(found, by_hand, strict=True):
        close(one, other)


@every_table
def test_difference(preset: str, table: str) -> None:
    """u - v is u + (-v), and Eq. 2 gives -v / (u - v) R to v."""
    u, v, relevance = draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4)
    expected = oracle.TABLES[preset, table]
    found = relevances(torch.sub, (u, v), relevance, engine_table(preset, table))
    by_hand = pairs_by_sample(
        lambda u, v, r: expected.sum(u, -v, r, expected.divide), u, v, relevance
    )
    for one, other in zip(found, by_hand, strict=True):
        close(one, other)


@every_table
def test_sum_that_broadcasts(preset: str, table: str) -> None:
    """An operand that is used by every token gets the sum of its uses."""
    u, v, relevance = draw(2, 3, 4), draw(2, 1, 4), draw(2, 3, 4)
    expected = oracle.TABLES[preset, table]
    found = relevances(torch.add, (u, v), relevance, engine_table(preset, table))
    ru, rv = pairs_by_sample(
        lambda u, v, r: expected.sum(u, v, r, expected.divide), u, v.expand_as(u), relevance
    )
    close(found[0], ru)
    close(found[1], rv.sum(1, keepdim=True))


@every_table
def test_sum_in_a_sequence_first_model(preset: str, table: str) -> None:
    """Samples on the second axis, as many as there are tokens."""
    u, v, relevance = draw(3, 3, 4), draw(3, 3, 4), draw(3, 3, 4)
    expected = oracle.TABLES[preset, table]
    found = relevances(
        lambda u, v: (u.transpose(0, 1) + v.transpose(0, 1)).transpose(0, 1),
        (u, v),
        relevance,
        engine_table(preset, table),
    )
    by_hand = pairs_by_sample(
        lambda u, v, r: expected.sum(u, v, r, expected.divide), u, v, relevance
    )
    for one, other in zip(found, by_hand, strict=True):
        close(one, other)


@every_table
def test_sum_in_a_model_that_folds_samples_and_tokens(preset: str, table: str) -> None:
    """Samples and tokens on one axis: the sums still run over one sample."""
    u, v, relevance = draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4)
    expected = oracle.TABLES[preset, table]
    found = relevances(
        lambda u, v: (u.flatten(0, 1) + v.flatten(0, 1)).unflatten(0, (2, 3)),
        (u, v),
        relevance,
        engine_table(preset, table),
    )
    by_hand = pairs_by_sample(
        lambda u, v, r: expected.sum(u, v, r, expected.divide), u, v, relevance
    )
    for one, other in zip(found, by_hand, strict=True):
        close(one, other)


@every_table
def test_position_embedding(preset: str, table: str) -> None:
    """The share of the embedding is computed, and dropped."""
    u, constant, relevance = draw(2, 3, 4), draw(1, 3, 4), draw(2, 3, 4)
    expected = oracle.TABLES[preset, table]
    (found,) = relevances(lambda u: u + constant, (u,), relevance, engine_table(preset, table))
    by_hand, _ = pairs_by_sample(
        lambda u, v, r: expected.sum(u, v, r, expected.divide),
        u,
        constant.expand_as(u),
        relevance,
    )
    close(found, by_hand)


@every_table
@pytest.mark.parametrize(
    "part",
    [
        lambda x: x + 2.5,
        lambda x: x + torch.ones(4).to(x),
        lambda x: 1 - (1 - x),
        lambda x: x * 3,
        lambda x: x * torch.arange(4).to(x),
        lambda x: x / 8**0.5,
        lambda x: F.layer_norm(x, (4,), torch.arange(4).to(x), torch.ones(4).to(x)),
        F.gelu,
        F.relu,
        F.silu,
        torch.tanh,
        torch.sigmoid,
        lambda x: x.softmax(-1),
        lambda x: F.dropout(x, 0.5),
    ],
)
def test_identities(part: Callable[[Tensor], Tensor], preset: str, table: str) -> None:
    """Normalisations, non-linearities, scales and biases pass relevance as it is."""
    x, relevance = draw(2, 3, 4), draw(2, 3, 4)
    (found,) = relevances(part, (x,), relevance, engine_table(preset, table))
    close(found, relevance)


@every_table
def test_mask_takes_no_relevance(preset: str, table: str) -> None:
    """A constant that is added to Q K^T leaves all relevance to the scores."""
    u, v, mask = draw(2, 3, 4), draw(2, 4, 3), draw(2, 3, 3)
    relevance = draw(2, 3, 3)
    found = relevances(
        lambda u, v: (u @ v) * 0.5 + mask, (u, v), relevance, engine_table(preset, table)
    )
    plain = relevances(torch.matmul, (u, v), relevance, engine_table(preset, table))
    for one, other in zip(found, plain, strict=True):
        close(one, other)


@every_table
@pytest.mark.parametrize(
    "mask_scores",
    [
        lambda scores, mask: scores + mask.to(scores).log(),
        lambda scores, mask: scores.masked_fill(~mask, float("-inf")),
        lambda scores, mask: (
            scores.unflatten(0, (2, 1)) + mask.to(scores).log().unsqueeze(1)
        ).flatten(0, 1),
        lambda scores, mask: torch.where(mask, scores, float("-inf")),
    ],
    ids=["added", "filled", "added after a reshape", "where"],
)
def test_masked_keys_do_not_matter(
    mask_scores: Callable[[Tensor, Tensor], Tensor], preset: str, table: str
) -> None:
    """Relevance through masked attention is relevance without the masked tokens."""
    q, k, v = draw(2, 3, 4), draw(2, 5, 4), draw(2, 5, 4)
    relevance = draw(2, 3, 4)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[:, :, 3:] = False

    def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return mask_scores(q @ k.mT, mask).softmax(-1) @ v

    padded = relevances(masked, (q, k, v), relevance, engine_table(preset, table))
    bare = relevances(
        lambda q, k, v: (q @ k.mT).softmax(-1) @ v,
        (q, k[:, :3], v[:, :3]),
        relevance,
        engine_table(preset, table),
    )
    for one, other in zip(padded, bare, strict=True):
        close(one[:, :3], other)
        assert not one[:, 3:].any()


# -- sums of many terms


@every_table
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("reduce", [torch.mean, torch.sum], ids=["mean", "sum"])
def test_pooling(preset: str, table: str, reduce: Callable[..., Tensor], keepdim: bool) -> None:
    """Eq. 6 for as many terms as there are tokens, and the normalisation of two."""
    x, relevance = draw(2, 5, 4), draw(2, 4)
    expected = oracle.TABLES[preset, table]
    (found,) = relevances(
        lambda x: reduce(x, 1, keepdim=keepdim), (x,), relevance, engine_table(preset, table)
    )
    close(found, by_sample(lambda x, r: expected.terms(x, r, expected.divide), x, relevance))


@every_table
def test_pooling_over_two_axes(preset: str, table: str) -> None:
    x, relevance = draw(2, 3, 4, 5), draw(2, 5)
    expected = oracle.TABLES[preset, table]
    (found,) = relevances(lambda x: x.mean((1, 2)), (x,), relevance, engine_table(preset, table))
    by_hand = by_sample(
        lambda x, r: expected.terms(x.flatten(0, 1), r, expected.divide), x, relevance
    )
    close(found, by_hand.view_as(x))


@pytest.mark.parametrize(
    ("preset", "table"), [t for t in TABLES if t != ("reference", "attribution")]
)
def test_pooling_of_two_terms_is_a_sum(preset: str, table: str) -> None:
    """Eq. 6 does not depend on how a sum is written.

    The authors' code normalises u + v and has no pooling to normalise.
    """
    u, v, relevance = draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4)
    (stacked,) = relevances(
        lambda x: x.sum(1), (torch.stack([u, v], 1),), relevance, engine_table(preset, table)
    )
    added = relevances(torch.add, (u, v), relevance, engine_table(preset, table))
    close(stacked, torch.stack(added, 1))


# -- products


@every_table
@pytest.mark.parametrize(
    "part",
    [
        torch.matmul,
        lambda u, v: torch.bmm(u.flatten(0, 1), v.flatten(0, 1)).view(2, 2, 3, 3),
        lambda u, v: torch.einsum("bhkm,bhml->bhkl", u, v),
        lambda u, v: (u * 8) @ v / 8,
    ],
    ids=["matmul", "bmm", "einsum", "scaled"],
)
def test_product(preset: str, table: str, part: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Eq. 6 for u v: as it stands, or a half of it to each."""
    u, v, relevance = draw(2, 2, 3, 4), draw(2, 2, 4, 3), draw(2, 2, 3, 3)
    u[0, 0, 1] = 0
    expected = oracle.TABLES[preset, table]
    found = relevances(part, (u, v), relevance, engine_table(preset, table))
    ru, rv = pairs_by_sample(
        lambda u, v, r: expected.product(u, v, r, expected.divide),
        *(t.flatten(0, 1) for t in (u, v, relevance)),
    )
    close(found[0], ru.view_as(u), 1e-7)
    close(found[1], rv.view_as(v), 1e-7)


@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_half_is_the_normalisation_of_a_product(preset: str) -> None:
    """The normalisation written out gives the factor 1/2 where the division is plain.

    Stabilised shares of a product sum to less than R, and are halved all the same.
    """
    expected = oracle.TABLES[preset, "attribution"]
    u, v, relevance = draw(2, 3, 4), draw(2, 4, 3), draw(2, 3, 3).abs()
    found = relevances(torch.matmul, (u, v), relevance, PRESETS[preset].attribution)
    ru, rv = pairs_by_sample(
        lambda u, v, r: tuple(oracle.normalise(oracle.whole_product(u, v, r, expected.divide), r)),
        u,
        v,
        relevance,
    )
    close(found[0], ru, 1e-6)
    close(found[1], rv, 1e-6)


@every_table
def test_elementwise_product(preset: str, table: str) -> None:
    """Eq. 6 for u * v gives R to each; where products are halved, a half."""
    u, v, relevance = draw(2, 3, 4), draw(2, 3, 1), draw(2, 3, 4)
    halved = oracle.TABLES[preset, table].product is oracle.halved_product
    share = relevance / 2 if halved else relevance
    found = relevances(torch.mul, (u, v), relevance, engine_table(preset, table))
    close(found[0], share)
    close(found[1], share.sum(-1, keepdim=True))


@every_table
def test_tensor_used_twice(preset: str, table: str) -> None:
    """The relevances of a tensor's uses add up."""
    x, one, two = draw(2, 3, 5), draw(4, 5), draw(2, 5)
    relevance = draw(2, 3, 6)
    expected = oracle.TABLES[preset, table]
    (found,) = relevances(
        lambda x: torch.cat([F.linear(x, one), F.linear(x, two)], -1),
        (x,),
        relevance,
        engine_table(preset, table),
    )
    first = expected.learned(x, one, relevance[..., :4], expected.divide_learned)
    second = expected.learned(x, two, relevance[..., 4:], expected.divide_learned)
    close(found, first + second, learned_tolerance(preset, table))


@every_table
def test_relevance_moves_with_the_values(preset: str, table: str) -> None:
    x, relevance = draw(2, 3, 4), draw(2, 2, 6)
    (found,) = relevances(
        lambda x: torch.cat([x[:, 1:], x[:, :1]], 1).transpose(1, 2).reshape(2, 2, 6),
        (x,),
        relevance,
        engine_table(preset, table),
    )
    moved = relevance.reshape(2, 4, 3).transpose(1, 2)
    close(found, torch.cat([moved[:, 2:], moved[:, :2]], 1))


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


# -- properties

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
    part: Callable[..., Tensor], inputs: tuple[Tensor, ...], relevance: Tensor, table: Rules
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
    for preset in PRESETS:
        ru, rv = relevances(torch.add, (u, v), relevance, PRESETS[preset].attribution)
        assert 0 <= float(ru.sum()) <= 2
        assert 0 <= float(rv.sum()) <= 2
        assert float(ru.sum() + rv.sum()) == pytest.approx(2, abs=1e-6)
        assert max(float(ru.abs().max()), float(rv.abs().max())) <= 2


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
