"""Models that are written unlike others: right, or named in a note, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer
from test_completeness import noised, relative_error
from whyformer.engine import GRADIENT, GRADIENTS, record

Mix = Callable[[Tensor, Tensor, Tensor], Tensor]
Part = Callable[["Written", Tensor], Tensor]
WIDTH, HEADS, TOKENS = 16, 2, 6


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k).softmax(-1) @ v


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * q.shape[-1] ** -0.5


class Written(nn.Module):
    """Two blocks on features: how attention, activation and head are written is given."""

    def __init__(
        self,
        mix: Mix = plain,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        head: Part = lambda net, x: net.head(x[:, 0]),
        before: Part = lambda net, x: x,
    ) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.mix, self.activation, self.last, self.before = mix, activation, head, before
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)
        self.scan = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        noised(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(self, x)
        for qkv, out in zip(self.qkv, self.out, strict=True):
            heads = qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            x = x + out(self.mix(*heads).transpose(1, 2).flatten(2))
            x = x + self.down(self.activation(self.up(self.norm(x))))
        return self.last(self, x)


def features(batch: int = 2) -> Tensor:
    torch.manual_seed(7)
    return torch.randn(batch, TOKENS, WIDTH, dtype=torch.float64)


def as_by_autograd(model: nn.Module, x: Tensor, maps: bool) -> None:
    trace = record(model, x, maps=maps)
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)
    seed = torch.zeros_like(trace.output)
    seed[:, 1] = 1
    (found,) = trace.backward(GRADIENT, [(trace.output, seed)], [trace.seen.roots[0].leaf])
    assert torch.allclose(trace.output, model(x))
    assert found is not None
    assert torch.allclose(found, expected)


# -- where samples and heads stand


def heads_first(mix: Mix) -> Mix:
    return lambda q, k, v: mix(*(t.transpose(0, 1) for t in (q, k, v))).transpose(0, 1)


def head_major(mix: Mix) -> Mix:
    def folded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        flat = [t.transpose(0, 1).flatten(0, 1) for t in (q, k, v)]
        return mix(*flat).unflatten(0, (HEADS, -1)).transpose(0, 1)

    return folded


def by_einsum(weights: str, axis: int) -> Mix:
    def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = torch.einsum(f"bhid,bhjd->{weights}", q, k) * q.shape[-1] ** -0.5
        return torch.einsum(f"{weights},bhjd->bhid", found.softmax(axis), v)

    return mix


LAYOUTS: dict[str, Mix] = {
    "heads first": heads_first(plain),
    "heads first, fused": heads_first(F.scaled_dot_product_attention),
    "heads first, keys by queries": heads_first(
        lambda q, k, v: (v.mT @ scores(k, q).softmax(-2)).mT
    ),
    "folded, head by head": head_major(plain),
    "folded, head by head, fused": head_major(F.scaled_dot_product_attention),
    "einsum, heads first": by_einsum("hbij", -1),
    "einsum, samples behind": by_einsum("ijbh", 1),
}


@pytest.mark.parametrize("method", ["generic_attention", "transformer_attribution", "rollout"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_maps_are_of_their_own_samples(name: str, method: str) -> None:
    """As many heads as samples: the sizes of a map do not tell which axis is which."""
    x, target = features(HEADS), None if method == "rollout" else 1
    explainer = whyformer.Explainer(Written(LAYOUTS[name]))
    found = explainer(x, target, method)
    each = torch.cat([explainer(one, target, method).relevance for one in x.split(1)])
    assert torch.allclose(found.relevance, each, rtol=1e-8)
    assert found.notes == ()
    if method != "transformer_attribution":  # the stable preset knows which axis is the last
        expected = whyformer.Explainer(Written())(x, target, method).relevance
        assert torch.allclose(found.relevance, expected, rtol=1e-8)


# -- what is complete under libra


def divided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear attention: a quotient of two values."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return (q @ (k.mT @ v)) / (q @ k.sum(-2, keepdim=True).mT)


def spelled_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    found = scores(q, k)
    raised = (found - found.amax(-1, keepdim=True)).exp()
    return raised / raised.sum(-1, keepdim=True) @ v


def talking(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    heads = torch.tensor([[0.9, 0.3], [-0.2, 0.8]], dtype=q.dtype)
    mixed = torch.einsum("bhij,hg->bgij", scores(q, k).softmax(-1), heads) + 0.1
    return mixed @ v


MIXES: dict[str, Mix] = {
    "linear": divided,
    "softmax spelled out": spelled_out,
    "talking heads": talking,
    "a difference of maps": lambda q, k, v: (
        (scores(q, k).softmax(-1) - 0.4 * scores(q.flip(-1), k).softmax(-1)) @ v
    ),
    "divided behind": lambda q, k, v: (
        F.normalize(scores(q, k).softmax(-1) * (1 - torch.eye(TOKENS)), p=1, dim=-1) @ v
    ),
    "sigmoid": lambda q, k, v: scores(q, k).sigmoid() @ v,
    "exp of log_softmax": lambda q, k, v: F.log_softmax(scores(q, k), -1).exp() @ v,
}
SLOPES = torch.linspace(-0.3, 0.9, 32, dtype=torch.float64)
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "prelu": lambda x: F.prelu(x.mT, SLOPES).mT,
    "clamp": lambda x: torch.clamp(x, min=SLOPES),
    "quotient": lambda x: x / (1 + x.roll(1, -1).square()),
}


@pytest.mark.parametrize("maps", [True, False], ids=["maps", "fused"])
@pytest.mark.parametrize("name", [*MIXES, *ACTIVATIONS])
def test_libra_is_complete(name: str, maps: bool) -> None:
    model, x = Written(MIXES.get(name, plain), ACTIVATIONS.get(name, F.gelu)), features()
    as_by_autograd(model, x, maps)
    trace = record(model, x, maps=maps)
    seed = torch.zeros_like(trace.output)
    seed[:, 1] = 1
    found: list[Tensor] = []
    leaf = trace.seen.roots[0].leaf
    (slot,) = trace.backward(
        GRADIENTS["libra"],
        [(trace.output, seed)],
        [leaf],
        constants=lambda operation, term: found.append(term.sum()),
    )
    total = (leaf.detach() * slot).sum() + torch.stack(found).sum()
    assert relative_error(total, (trace.output.detach() * seed).sum()) < 1e-9


# -- what a model does beside


class Weights(nn.Module):
    """It reads the weights that nn.MultiheadAttention returns."""

    def __init__(self, averaged: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.head, self.averaged = nn.Linear(WIDTH, 3), averaged
        noised(self)

    def forward(self, x: Tensor) -> Tensor:
        mixed, weights = self.attention(x, x, x, average_attn_weights=self.averaged)
        weights = weights if self.averaged else weights[:, 0]
        return self.head((x + mixed + weights @ x)[:, 0])


@pytest.mark.parametrize("maps", [True, False], ids=["maps", "fused"])
@pytest.mark.parametrize("averaged", [True, False])
def test_weights_that_the_model_reads(averaged: bool, maps: bool) -> None:
    as_by_autograd(Weights(averaged), features(), maps)
    assert whyformer.Explainer(Weights(averaged))(features(), 1, "fullgrad").notes == ()


def test_padding_of_an_encoder() -> None:
    """torch asks, in an operation that returns a truth value, whether a mask is at the right."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True)

    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = torch.arange(x.shape[1]).expand(x.shape[:2]) > 3
            return self.head(self.encoder(x, src_key_padding_mask=hidden)[:, 0])

    model = noised(Padded())
    as_by_autograd(model, features(), True)
    found = whyformer.Explainer(model)(features(), 1, "generic_attention").relevance
    assert found[:, 1:4].gt(0).all()
    assert not found[:, 4:].any()


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("read", [float, Tensor.item, lambda value: value.view(1).tolist()[0]])
def test_numbers_that_are_read_off_a_value_are_named(read: Callable[[Tensor], float]) -> None:
    model = Written(before=lambda net, x: x / read(x.norm()))
    as_by_autograd(model, features(), True)
    notes = whyformer.Explainer(model)(features(), 1, "fullgrad").notes
    assert len(notes) == 1
    assert "cuts the graph" in notes[0]
    assert "test_unusual.py" in notes[0]


def test_a_part_under_vmap() -> None:
    """Autograd follows it, the recorder does not: a note says so."""
    model = Written(head=lambda net, x: torch.vmap(lambda row: net.head(row[0].tanh()))(x))
    as_by_autograd(model, features(), True)
    notes = whyformer.Explainer(model)(features(), 1).notes
    assert any("Tanh is not visible to the recorder" in note for note in notes)


def test_cosine_similarity() -> None:
    """Of degree zero: x dy/dx is nothing, and the generic rule would give rounding errors."""

    def similar(net: Written, x: Tensor) -> Tensor:
        return F.cosine_similarity(x.mean(1).unsqueeze(1), net.head.weight, dim=-1)

    def spelled(net: Written, x: Tensor) -> Tensor:
        return F.normalize(x.mean(1), dim=-1) @ F.normalize(net.head.weight, dim=-1).T

    as_by_autograd(Written(head=similar), features(), True)
    explainer, other = (whyformer.Explainer(Written(head=head)) for head in (similar, spelled))
    found = explainer(features(), 1)
    assert found.notes == ()
    assert found.relevance.abs().sum() > 1e-6
    for method in ("generic_attention", "gradient_x_input"):
        expected = other(features(), 1, method).relevance
        assert torch.allclose(explainer(features(), 1, method).relevance, expected)


def test_roll_outs_through_what_has_no_rule() -> None:
    """A scan in front: mass that a token gets is no less than none."""
    explainer = whyformer.Explainer(Written(before=lambda net, x: net.scan(x)[0]))
    assert explainer(features(), method="rollout").relevance.ge(0).all()
    assert explainer(features(), 1, "witness").relevance.isfinite().all()


MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "amin": lambda x: x.amin(1, keepdim=True) + x,
    "min": lambda x: x.min(1, keepdim=True).values + x,
    "fmax": lambda x: torch.fmax(x, x * 2),
    "reflected": lambda x: F.pad(x, (1, 1), mode="reflect")[..., 1:-1],
    "replicated": lambda x: F.pad(x, (1, 1), mode="replicate")[..., 1:-1],
    "index_fill": lambda x: x.index_fill(1, torch.tensor([2]), 0.0),
    "slice_scatter": lambda x: x.slice_scatter(x[:, :1] * 2, 1, 1, 2),
    "select_scatter": lambda x: x.select_scatter(x[:, 0] * 2, 1, 1),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x[:, 0, :TOKENS], 0, 1, 2),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, WIDTH),
    "max_pool3d": lambda x: F.max_pool3d(x.unsqueeze(1), 1).squeeze(1),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_are_no_strangers(name: str) -> None:
    model = Written(before=lambda net, x: MOVES[name](x))
    as_by_autograd(model, features(), True)
    assert whyformer.Explainer(model)(features(), 1, "fullgrad").notes == ()


# -- what is said


def test_a_map_of_zeros_is_named_for_each_sample() -> None:
    x = features(8)
    found = whyformer.Explainer(Written())(x, 1, "gradcam")
    blank = int((~found.relevance.any(1)).sum())
    assert 0 < blank < 8
    assert found.notes[0].startswith(f"the map is zero for {blank} of 8 samples: by gradcam")


def test_mixing_outside_attention_is_left_out_by_those_that_read_maps_alone() -> None:
    explainer = whyformer.Explainer(Written(before=lambda net, x: x + net.scan(x)[0]))
    said = "1 block mixes tokens outside attention, which {} leaves out"
    for method, leaves_out in (("rollout", True), ("lrp", False), ("deeplift", False)):
        target = None if method == "rollout" else 1
        notes = explainer(features(), target, method).notes
        assert any(note.startswith(said.format(method)) for note in notes) == leaves_out


def convolved(x: Tensor, kernel: int, step: int = 1) -> Tensor:
    """A convolution of the six tokens as a grid of two by three, in the tokens' order again."""
    weight = torch.linspace(-1, 1, WIDTH * WIDTH * kernel**2, dtype=x.dtype)
    weight = weight.view(WIDTH, WIDTH, kernel, kernel)
    grid = x.mT.unflatten(-1, (2, 3))
    return F.conv2d(grid, weight, stride=step, padding=(kernel - step) // 2).flatten(2).mT


@pytest.mark.parametrize(("kernel", "step", "mixes"), [(3, 1, True), (1, 1, False), (2, 2, False)])
def test_convolutions_mix_tokens_where_their_windows_overlap(
    kernel: int, step: int, mixes: bool
) -> None:
    behind = Written(head=lambda net, x: net.head(convolved(x, kernel, step)[:, 0]))
    before = Written(before=lambda net, x: convolved(x, kernel, step))
    for model, said in ((behind, mixes), (before, False)):
        notes = whyformer.Explainer(model)(features(), 1, "generic_attention").notes
        assert any("1 convolution mixes tokens" in note for note in notes) == said


PARTIAL: dict[str, Any] = {
    "in chunks": Written(lambda q, k, v: torch.cat([plain(c, k, v) for c in q.split(2, 2)], 2)),
    "sample by sample": Written(
        lambda q, k, v: torch.cat([plain(*one) for one in zip(*map(alone, (q, k, v)), strict=True)])
    ),
}


def alone(values: Tensor) -> tuple[Tensor, ...]:
    return values.split(1)


@pytest.mark.parametrize("name", PARTIAL)
def test_a_last_map_that_holds_a_part_is_refused(name: str) -> None:
    explainer = whyformer.Explainer(PARTIAL[name])
    with pytest.raises(whyformer.ModelError, match="last attention map does not lead"):
        explainer(features(), method="raw_attention")
    expected = whyformer.Explainer(Written())(features(), 1, "generic_attention")
    found = explainer(features(), 1, "generic_attention")
    assert torch.allclose(found.relevance, expected.relevance)


def test_what_overflows_in_double_precision_is_not_sent_there() -> None:
    model = Written(before=lambda net, x: x / x.detach().norm(dim=-1, keepdim=True))
    for method in ("occlusion", "deeplift"):
        with pytest.raises(whyformer.WhyformerError) as raised:
            whyformer.Explainer(model)(features(), 1, method)
        assert "float64: its map" in str(raised.value) or "logits hold NaN" in str(raised.value)
        assert "try it in" not in str(raised.value)
        assert "run the model in" not in str(raised.value)


def test_attention_without_softmax_is_told() -> None:
    with pytest.raises(whyformer.ModelError, match="finds attention by its call of softmax"):
        whyformer.Explainer(Written(spelled_out))(features(), 1)
    assert math.isfinite(
        float(whyformer.Explainer(Written(spelled_out))(features(), 1, "fullgrad").relevance.sum())
    )


def test_one_map_may_serve_the_values_of_all_heads() -> None:
    """Broadcast, or written for each head; gradients tell one map from two, attention does not."""

    def once(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scores(q[:, :1], k[:, :1]).softmax(-1) @ v

    def each(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scores(q[:, :1], k[:, :1]).softmax(-1).repeat(1, HEADS, 1, 1) @ v

    one, two = (whyformer.Explainer(Written(mix)).record(features()) for mix in (once, each))
    for method in ("rollout", "fullgrad"):
        maps = [recording.explain(1, method).relevance for recording in (one, two)]
        torch.testing.assert_close(*maps)
    for method in ("generic_attention", "witness"):
        assert one.explain(1, method).relevance.any()
