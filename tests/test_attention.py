"""Fused attention taken apart is the same function, with the same derivatives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer
from whyformer.engine import GRADIENT, PRESETS, record
from zoo import HandWritten, pixels, text

HEADS, LENGTH, WIDTH = 4, 6, 16


class OneLayer(nn.Module):
    """One attention layer, fused or written out, with the options of SDPA."""

    def __init__(self, fused: bool, kv_heads: int = HEADS, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(1)
        each = WIDTH // HEADS
        self.q, self.k = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, kv_heads * each)
        self.v, self.out = nn.Linear(WIDTH, kv_heads * each), nn.Linear(WIDTH, 3)
        self.fused, self.options, self.kv_heads = fused, options, kv_heads

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = (m(x).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2) for m in (self.k, self.v))
        mixed = self.sdpa(q, k, v) if self.fused else self.eager(q, k, v)
        return self.out(x + mixed.transpose(1, 2).flatten(2)).mean(1)

    def sdpa(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        gqa = {"enable_gqa": True} if self.kv_heads != HEADS else {}
        return F.scaled_dot_product_attention(q, k, v, **self.options, **gqa)

    def eager(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.kv_heads != HEADS:
            k, v = (t.repeat_interleave(HEADS // self.kv_heads, 1) for t in (k, v))
        scores = q @ k.transpose(-2, -1) * self.options.get("scale", q.shape[-1] ** -0.5)
        mask = self.options.get("attn_mask")
        if self.options.get("is_causal"):
            mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        if mask is not None and mask.dtype is torch.bool:
            scores = scores.masked_fill(~mask, float("-inf"))
        elif mask is not None:
            scores = scores + mask
        return scores.softmax(-1) @ v


KEEP = torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(3)) > 0.3
KEEP.fill_diagonal_(True)
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "boolean mask": {"attn_mask": KEEP},
    "additive mask": {"attn_mask": torch.randn(LENGTH, LENGTH, dtype=torch.float64)},
    "causal": {"is_causal": True},
    "scale": {"scale": 0.3},
    "grouped queries": {"kv_heads": 2},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("preset", PRESETS)
def test_fused_attention_equals_attention_written_out(variant: str, preset: str) -> None:
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    found = [
        whyformer.Explainer(OneLayer(fused, **VARIANTS[variant]).double().eval())(
            x, target=1, preset=preset, keep_blocks=True
        )
        for fused in (True, False)
    ]
    fused, eager = found
    assert torch.allclose(fused.logits, eager.logits, atol=1e-12)
    for kind in ("attention", "gradient", "relevance"):
        a, b = (getattr(e.blocks, kind)[0] for e in (fused, eager))
        assert a.shape == (2, HEADS, LENGTH, LENGTH)
        assert torch.allclose(a, b, atol=1e-9), kind
    assert torch.allclose(fused.relevance, eager.relevance, atol=1e-9)
    for explanation in (fused, eager):
        assert not [note for note in explanation.notes if "map is zero" not in note]


@pytest.mark.parametrize("variant", VARIANTS)
def test_recorded_forward_and_gradient_are_torchs_own(variant: str) -> None:
    model = OneLayer(True, **VARIANTS[variant]).double()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    trace = record(model, x)
    own = model(x)
    assert torch.allclose(trace.output, own, atol=1e-12)
    seed = torch.zeros_like(own)
    seed[:, 2] = 1
    (expected,) = torch.autograd.grad(own, x, seed)
    (found,) = trace.backward(GRADIENT, [(trace.output, seed)], [trace.seen.roots[0].leaf])
    assert torch.allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("mask_kind", ["none", "boolean", "additive", "padding", "both"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multi_head_attention_forward(mask_kind: str, batch_first: bool) -> None:
    """``nn.MultiheadAttention`` recorded gives torch's outputs and torch's weights."""
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first).double()
    options: dict[str, Any] = {}
    if mask_kind in ("boolean", "both"):
        options["attn_mask"] = ~KEEP
    if mask_kind == "additive":
        options["attn_mask"] = torch.randn(LENGTH, LENGTH, dtype=torch.float64)
    if mask_kind in ("padding", "both"):
        padding = torch.zeros(2, LENGTH, dtype=torch.bool)
        padding[1, -2:] = True
        options["key_padding_mask"] = padding
    weights = []

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            y = x if batch_first else x.transpose(0, 1)
            out, a = self.layer(y, y, y, average_attn_weights=False, **options)
            weights.append(a)
            return out.mean(1 if batch_first else 0)

    model = Model().eval()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        own = model(x)
    trace = record(model, x)
    assert torch.allclose(trace.output, own, atol=1e-12)
    assert torch.allclose(trace.seen.attention[0].weights, weights[0], atol=1e-12)
    assert torch.allclose(weights[1].detach(), weights[0], atol=1e-12)


@pytest.mark.parametrize("style", ["einsum", "bmm"])
def test_styles_of_writing_attention_agree(style: str) -> None:
    models = []
    for kind in ("matmul", style):
        torch.manual_seed(0)
        models.append(whyformer.Explainer(HandWritten(kind).double().eval()))
    image = pixels().double()
    expected, found = (m(image, target=2, keep_blocks=True) for m in models)
    assert torch.allclose(found.relevance, expected.relevance, atol=1e-10)
    for a, b in zip(found.blocks.relevance, expected.blocks.relevance, strict=True):
        assert torch.allclose(a, b, atol=1e-10)


def test_hugging_face_sdpa_equals_eager() -> None:
    from transformers import BertConfig, BertForSequenceClassification

    from zoo import TEXT

    maps = []
    for kind in ("sdpa", "eager"):
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(**TEXT, attn_implementation=kind))
        maps.append(whyformer.Explainer(model.double().eval())(text_batch(), target=1).relevance)
    assert torch.allclose(maps[0], maps[1], atol=1e-9)


def text_batch() -> dict[str, Tensor]:
    torch.manual_seed(5)
    return text()


@pytest.mark.parametrize("method", ["gradient_x_input", "fullgrad"])
def test_one_head_of_keys_for_all_queries_by_broadcasting(method: str) -> None:
    """As Falcon has it; methods without maps keep attention fused."""

    class OneKey(OneLayer):
        def sdpa(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v)

    model = OneKey(True, kv_heads=1).double().eval()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    found = whyformer.Explainer(model)(x, 1, method, gradient="gradient")
    (slope,) = torch.autograd.grad(model(x)[:, 1].sum(), x)
    expected = (x * slope).sum(-1).detach()
    if method == "gradient_x_input":
        assert torch.allclose(found.relevance, expected)
    assert found.relevance.isfinite().all()


class Ignored(torch.autograd.Function):
    """The first of two values; the second gets nothing back."""

    @staticmethod
    def forward(ctx: Any, kept: Tensor, ignored: Tensor) -> Tensor:
        return kept.clone()

    @staticmethod
    def backward(ctx: Any, slot: Tensor) -> tuple[Tensor, None]:
        return slot, None


def test_a_value_at_which_nothing_arrives_calls_nobody() -> None:
    class Aside(OneLayer):
        def forward(self, x: Tensor) -> Tensor:
            self.aside = x.tanh()
            return Ignored.apply(super().forward(x), self.aside.exp().mean(1)[:, :3])

    model = Aside(True).double().eval()
    trace = record(model, torch.randn(2, LENGTH, WIDTH, dtype=torch.float64))
    arrived: list[Tensor] = []
    seed = torch.ones_like(trace.output)
    passing = {model.aside: arrived.append}
    roots = [root.leaf for root in trace.seen.roots]
    (slot,) = trace.backward(GRADIENT, [(trace.output, seed)], roots, passing=passing)
    assert arrived == []
    assert slot is not None
    assert slot.any()


def test_constants_that_are_broadcast_cut_nothing() -> None:
    class Beside(OneLayer):
        def forward(self, x: Tensor) -> Tensor:
            logits, constant = torch.broadcast_tensors(super().forward(x), torch.ones(1, 3).to(x))
            return logits * constant

    found = whyformer.Explainer(Beside(True).eval())(torch.randn(2, LENGTH, WIDTH), 1)
    assert found.notes == ()
