"""Sums and products of activations, and what passes unchanged, against the oracle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import oracle
from probe import (
    TABLES,
    by_sample,
    close,
    draw,
    engine_table,
    every_table,
    learned_tolerance,
    pairs_by_sample,
    relevances,
)
from whyformer.engine import PRESETS

# -- sums


SUMS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], int]] = {
    # how a model adds two activations of (batch, tokens, features), and the sign of the second
    "u + v": (torch.add, 1),
    "u - v": (torch.sub, -1),
    "sequence first": (lambda u, v: (u.transpose(0, 1) + v.transpose(0, 1)).transpose(0, 1), 1),
    "folded": (lambda u, v: (u.flatten(0, 1) + v.flatten(0, 1)).unflatten(0, u.shape[:2]), 1),
}


@every_table
@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("how", SUMS)
def test_sum(how: str, tokens: int, preset: str, table: str) -> None:
    """Eq. 6, normalised or not, over one sample at a time, though there be as many tokens."""
    part, sign = SUMS[how]
    u, v, relevance = draw(2, tokens, 4), draw(2, tokens, 4), draw(2, tokens, 4)
    u[0, 0], v[0, 0] = 0, 0
    expected = oracle.TABLES[preset, table]
    found = relevances(part, (u, v), relevance, engine_table(preset, table))
    by_hand = pairs_by_sample(
        lambda u, v, r: expected.sum(u, sign * v, r, expected.divide), u, v, relevance
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
def test_elementwise_quotient(preset: str, table: str) -> None:
    """Eq. 6 for u / v gives R to u and -R to v; the normalisation makes halves of one sign."""
    u, v, relevance = draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4)
    expected = oracle.TABLES[preset, table]

    def by_equation(u: Tensor, v: Tensor, r: Tensor) -> list[Tensor]:
        quotient = u / v
        ru = u * (1 / v) * r / quotient
        rv = v * (-u / v**2) * r / quotient
        halved = expected.product is oracle.halved_product
        return list(oracle.normalise([ru, rv], r)) if halved else [ru, rv]

    found = relevances(torch.div, (u, v), relevance, engine_table(preset, table))
    for mine, slow in zip(found, pairs_by_sample(by_equation, u, v, relevance), strict=True):
        close(mine, slow)


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
