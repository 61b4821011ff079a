"""However a forward is spelled, its explanation is that of the plain spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import whyformer
from zoo import Block

Part = Callable[["Spelled", Tensor], Tensor]
METHODS = ["transformer_attribution", "lrp", "gradient_x_input"]


def first_row(net: Spelled, x: Tensor) -> Tensor:
    return net.head(x[:, 0])


class Spelled(nn.Module):
    """Two blocks on features; ``before``, ``between`` and ``after`` are parts to be spelled."""

    def __init__(
        self,
        before: Part = lambda net, x: x,
        after: Part = first_row,
        between: Part = lambda net, x: net.blocks[1](net.blocks[0](x)),
    ) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList(Block(16, 2, "matmul") for _ in range(2))
        self.table = nn.Parameter(torch.randn(30, 16))
        self.bias, self.head = nn.Linear(16, 2), nn.Linear(16, 3)
        self.before, self.between, self.after = before, between, after
        self.double().eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self, self.between(self, self.before(self, x)))


def features(batch: int = 2, tokens: int = 5) -> Tensor:
    return torch.randn(batch, tokens, 16, dtype=torch.float64)


def by_hand(model: nn.Module, x: Tensor, target: int = 1) -> Tensor:
    """The input times its gradient, by autograd alone."""
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(leaf)[:, target].sum(), leaf)
    return (x * slope).sum(-1)


def agree(odd: nn.Module, plain: nn.Module, x: Tensor) -> None:
    """Two spellings have the same maps, gradients and relevance; the gradient is autograd's."""
    one, other = (
        whyformer.Explainer(m)(x, 1, preset="paper", keep_blocks=True) for m in (odd, plain)
    )
    assert torch.allclose(one.logits, plain(x))
    for kind in ("attention", "gradient", "relevance"):
        pairs = zip(getattr(one.blocks, kind), getattr(other.blocks, kind), strict=True)
        assert all(torch.allclose(a, b, atol=1e-10) for a, b in pairs), kind
    assert torch.allclose(one.relevance, other.relevance, atol=1e-10)
    given = whyformer.Explainer(odd)(x, 1, "gradient_x_input", gradient="gradient")
    assert torch.allclose(given.relevance, by_hand(plain, x))


# -- the arguments of a call


def attention_of(
    net: Spelled, x: Tensor, mix: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Tensor:
    q, k, v = net.blocks[0].qkv(x).chunk(3, -1)
    return net.blocks[1](x + mix(q, k, v))


MIXES: dict[str, tuple[Any, Any]] = {
    "bmm": (
        lambda q, k, v: torch.bmm(torch.bmm(q, mat2=k.mT).softmax(-1), mat2=v),
        lambda q, k, v: (q @ k.mT).softmax(-1) @ v,
    ),
    "baddbmm": (
        lambda q, k, v: torch.baddbmm(
            q.new_zeros(1, 5, 5), batch1=q, batch2=k.mT, beta=0.5, alpha=0.25
        ).softmax(dim=-1) @ v,
        lambda q, k, v: (0.25 * (q @ k.mT)).softmax(-1) @ v,
    ),
    "scaled_dot_product_attention": (
        lambda q, k, v: F.scaled_dot_product_attention(key=k, value=v, query=q, scale=0.5),
        lambda q, k, v: (q @ k.mT * 0.5).softmax(-1) @ v,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXES)
def test_arguments_of_attention_may_be_given_by_name(name: str) -> None:
    odd, plain = (
        Spelled(between=lambda net, x, mix=mix: attention_of(net, x, mix)) for mix in MIXES[name]
    )
    agree(odd, plain, features())


MATRIX = torch.randn(16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
SCALE, SHIFT = MATRIX[0].exp(), MATRIX[1]

CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: F.linear(input=x, weight=MATRIX, bias=SHIFT),
    "addmm": lambda x: torch.stack([torch.addmm(SHIFT, mat1=r, mat2=MATRIX) for r in x]),
    "conv1d": lambda x: F.conv1d(input=x.mT, weight=MATRIX.unsqueeze(-1), bias=SHIFT).mT,
    "add, alpha": lambda x: torch.add(x, x * x, alpha=2),
    "add_, alpha": lambda x: (x * 1.0).add_(x * x, alpha=2),
    "sub, alpha": lambda x: torch.sub(input=x, other=x / 2, alpha=3),
    "mean": lambda x: x * torch.mean(input=x, dim=1, keepdim=True),
    "sum, axis": lambda x: x * x.sum(axis=1, keepdims=True),
    "where": lambda x: torch.where(condition=MATRIX[:5] > 0, input=x, other=x * 2),
    "log_softmax": lambda x: F.log_softmax(input=x, dim=-1),
    "layer_norm": lambda x: F.layer_norm(normalized_shape=(16,), bias=SHIFT, weight=SCALE, input=x),
    "batch_norm": lambda x: F.batch_norm(x.mT, SHIFT, SCALE, SCALE, SHIFT).mT,
    "batch_norm, by name": lambda x: F.batch_norm(
        x.mT, running_var=SCALE, running_mean=SHIFT, weight=SCALE + 1, bias=SHIFT).mT,
    "instance_norm": lambda x: F.instance_norm(x.mT, weight=SCALE, bias=SHIFT).mT,
    "instance_norm, known statistics": lambda x: F.instance_norm(
        x.mT, SHIFT, SCALE, weight=SCALE + 1, bias=SHIFT, use_input_stats=False).mT,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_arguments_may_be_given_by_name(name: str) -> None:
    """The model's own answer, and autograd's gradient, whatever the order of the arguments."""
    model, x = Spelled(lambda net, x: CALLS[name](x)), features()
    found = whyformer.Explainer(model)(x, 1, "gradient_x_input", gradient="gradient")
    assert torch.allclose(found.logits, model(x))
    assert torch.allclose(found.relevance, by_hand(model, x))
    assert found.notes == ()


# -- values that are chosen


@pytest.mark.parametrize("chooser", ["constant", "activation"])
def test_where_may_be_asked_of_a_constant(chooser: str) -> None:
    """``constant.where(mask, x)`` keeps the constant where the mask is true."""
    hide = torch.arange(80).view(5, 16) % 3 == 0

    def odd(net: Spelled, x: Tensor) -> Tensor:
        zeros = torch.zeros_like(x)
        return zeros.where(hide, x) if chooser == "constant" else x.where(~hide, zeros)

    agree(Spelled(odd), Spelled(lambda net, x: x.masked_fill(hide, 0)), features())


@pytest.mark.parametrize(
    ("choose", "place"),
    [
        (lambda x: x.min(dim=1).values, 0),
        (lambda x: x.max(dim=1).values, -1),
        (lambda x: x.median(dim=1).values, 2),
        (lambda x: x.kthvalue(2, dim=1).values, 1),
        (lambda x: x.cummax(dim=1).values[:, -1], -1),
        (lambda x: x.cummin(dim=1)[0][:, -1], 0),
        (lambda x: torch.aminmax(x, dim=1).max, -1),
        (lambda x: x.topk(k=4, dim=1).values[:, -1], 1),
    ],
    ids="min max median kthvalue cummax cummin aminmax topk".split(),
)
def test_named_results(choose: Callable[[Tensor], Tensor], place: int) -> None:
    """The tokens' lowest, middle or highest values are those that sorting finds."""
    odd = Spelled(after=lambda net, x: net.head(choose(x)))
    plain = Spelled(after=lambda net, x: net.head(x.sort(dim=1).values[:, place]))
    agree(odd, plain, features())


@pytest.mark.parametrize(
    "spell",
    [
        lambda x, w: x @ w,
        lambda x, w: w @ x.mT,
        lambda x, w: torch.mv(x[0], w).unsqueeze(0),
        lambda x, w: torch.stack([torch.dot(row, w) for row in x[0]]).unsqueeze(0),
        lambda x, w: F.linear(x, w),
    ],
    ids=["x @ w", "w @ x.mT", "mv", "dot", "linear"],
)
def test_products_with_a_vector(spell: Callable[[Tensor, Tensor], Tensor]) -> None:
    """A vector that is an activation multiplies a matrix of them."""

    def after(spell: Callable[[Tensor, Tensor], Tensor]) -> Part:
        return lambda net, x: net.head(x[:, 1] * spell(x, x[0, 2]).mean(1, keepdim=True))

    plain = Spelled(after=after(lambda x, w: torch.einsum("btd,d->bt", x, w)))
    agree(Spelled(after=after(spell)), plain, features(1))


# -- what enters the model


@pytest.mark.parametrize(
    "look_up",
    [
        lambda table, ids: table[ids],
        lambda table, ids: table.index_select(0, ids.flatten()).view(*ids.shape, -1),
        lambda table, ids: F.embedding(weight=table, input=ids),
    ],
    ids=["table[ids]", "index_select", "by name"],
)
@pytest.mark.parametrize("method", METHODS)
def test_a_table_may_be_looked_up_by_any_function(look_up: Any, method: str) -> None:
    ids = torch.randint(0, 30, (2, 5))
    odd = Spelled(lambda net, x: look_up(net.table, x))
    plain = Spelled(lambda net, x: F.embedding(x, net.table))
    found, expected = (whyformer.Explainer(m)(ids, 1, method) for m in (odd, plain))
    assert found.tokens.kind == expected.tokens.kind == "text"
    assert found.notes == expected.notes
    assert torch.allclose(found.relevance, expected.relevance)
    given = whyformer.Explainer(odd)(ids, 1, "gradient_x_input", gradient="gradient")
    assert torch.allclose(given.relevance, by_hand(Spelled(), plain.table.detach()[ids]))


@pytest.mark.parametrize("tokens", [(7,), (7, 16)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_features_are_cast_to_the_models_precision(tokens: Any, dtype: torch.dtype) -> None:
    def before(net: Spelled, x: Tensor) -> Tensor:
        return x.unsqueeze(-1) * net.table[0] if x.ndim == 2 else x

    explainer = whyformer.Explainer(Spelled(before).float())
    x = torch.randn(2, *tokens).half()
    for method in METHODS:
        expected = explainer(x.float(), 1, method).relevance
        assert torch.equal(explainer(x.to(dtype), 1, method).relevance, expected)


# -- masks


def test_an_activation_that_lends_its_shape_cuts_nothing() -> None:
    shown = torch.ones(5, 5, dtype=torch.bool).tril()

    def mixing(hide: Callable[[Tensor], Tensor]) -> Part:
        return lambda net, x: attention_of(net, x, lambda q, k, v: hide(q @ k.mT).softmax(-1) @ v)

    lends = {
        "expand_as": lambda s: s.masked_fill(~shown.expand_as(s), -1e9),
        "type_as": lambda s: s + (1 - shown.float().type_as(s)) * -1e9,
        "view_as": lambda s: s + ((~shown).double() * -1e9).view_as(s[0]),
    }
    plain, x = Spelled(between=mixing(lambda s: s.masked_fill(~shown, -1e9))), features()
    for name, hide in lends.items():
        odd = Spelled(between=mixing(hide))
        agree(odd, plain, x)
        assert whyformer.Explainer(odd)(x, 1).notes == (), name


class Biased(Spelled):
    """The second block's scores have a bias that is computed from the activations."""

    def __init__(self, style: str) -> None:
        super().__init__()
        self.between = lambda net, x: net.biased(net.blocks[0](x), style)

    def biased(self, x: Tensor, style: str) -> Tensor:
        batch, length, width = x.shape
        block = self.blocks[1]
        bias = self.bias(x).mT.unsqueeze(2).expand(batch, 2, length, length)
        if style in ("multi-head", "padding"):
            own = bias.reshape(-1, length, length) if style == "multi-head" else None
            padding = bias[:, 0, 0] if style == "padding" else None
            mixed = F.multi_head_attention_forward(
                *[x.transpose(0, 1)] * 3, width, 2, block.qkv.weight, block.qkv.bias, None, None,
                False, 0.0, block.out.weight, block.out.bias,
                attn_mask=own, key_padding_mask=padding, need_weights=False,
            )[0]  # fmt: skip
            return x + mixed.transpose(0, 1)
        q, k, v = block.qkv(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        if style == "fused":
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            bias = bias[:, :1] if style == "by hand, one for all heads" else bias
            mixed = (q @ k.mT * (width // 2) ** -0.5 + bias).softmax(-1) @ v
        return x + block.out(mixed.transpose(1, 2).reshape(x.shape))


@pytest.mark.parametrize("style", ["fused", "multi-head", "padding"])
def test_a_bias_of_the_scores_that_depends_on_the_input(style: str) -> None:
    plain = Biased("by hand, one for all heads" if style == "padding" else "by hand")
    agree(Biased(style), plain, features())


# -- what surrounds a forward


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_checkpoints(method: str, reentrant: bool, both: bool) -> None:
    """A block under torch.utils.checkpoint is explained as without it, or refused in a sentence."""

    def between(net: Spelled, x: Tensor) -> Tensor:
        x = checkpoint(net.blocks[0], x, use_reentrant=reentrant)
        return checkpoint(net.blocks[1], x, use_reentrant=reentrant) if both else net.blocks[1](x)

    x, found, refusal = features(), [], ""
    try:
        recording = whyformer.Explainer(Spelled(between=between)).record(x)
        found = [recording.explain(1, method) for _ in range(2)]
    except (whyformer.ModelError, whyformer.InputError) as error:
        refusal = str(error)
    expected = whyformer.Explainer(Spelled())(x, 1, method)
    assert found or "checkpoint" in refusal
    assert "\n" not in refusal
    for each in found:
        assert torch.allclose(each.relevance, expected.relevance)
        assert each.notes == expected.notes


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("where", ["activations", "weights"])
def test_autocast_inside_a_forward(where: str, method: str) -> None:
    """Half precision that a model asks for itself is not used: the map is the full one's."""

    def spelled(enabled: bool) -> Part:
        def between(net: Spelled, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                if where == "weights":
                    x = x @ (net.table[:16] @ net.table[:16].T)
                return net.blocks[1](net.blocks[0](x))

        return between

    x = features().float()
    found, expected = (
        whyformer.Explainer(Spelled(between=spelled(on)).float())(x, 1, method)
        for on in (True, False)
    )
    assert torch.allclose(found.logits, expected.logits, atol=1e-5)
    assert torch.allclose(found.relevance, expected.relevance, rtol=1e-3, atol=1e-6)
    assert found.notes == expected.notes
