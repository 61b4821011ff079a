"""The contenders by hand: one sample of a tiny Transformer, straight from each method's formula."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from test_streams import noised
from test_tiny_transformer import HEADS, WIDTH, Forward, Tiny, affine, layer_norm, run
from zoo import quick

Vectors = list[list[Tensor]]


def ask(model: nn.Module, inputs: Any, target: Any, method: str, **options: Any) -> Any:
    specific = whyformer.methods()[method].class_specific
    options = {**quick(method), **options}
    return whyformer.Explainer(model)(inputs, target if specific else None, method, **options)


def decoder() -> tuple[nn.Module, dict[str, Tensor]]:
    """Grouped queries, rotary positions, norms that are spelled out."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 64, "pad_token_id": 0}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3}
    model = noised("LlamaForCausalLM", transformers.LlamaConfig(**sizes, **heads))
    ids = torch.randint(5, 60, (2, 7))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@dataclass
class Maps:
    """Attention and gradient of every block and head, streams and theirs; the asked rows."""

    a: list[list[Tensor]]
    g: list[list[Tensor]]
    x: list[Tensor]
    slope: list[Tensor]
    rows: list[float]
    forward: Forward


def asked_rows(model: Tiny, tokens: int) -> list[float]:
    return [1 / tokens] * tokens if model.kind == "mean" else [1.0] + [0.0] * (tokens - 1)


def maps(model: Tiny, x: Tensor, target: int, last_scale: float = 1.0) -> Maps:
    forward = run(model, x, last_scale)
    heads = [a for values in forward.blocks for a in values.a]
    streams = [values.x for values in forward.blocks]
    found = torch.autograd.grad(forward.logits[target], [*heads, *streams])
    count = len(forward.blocks)
    a = [[head.detach() for head in values.a] for values in forward.blocks]
    g = [list(found[b * HEADS : (b + 1) * HEADS]) for b in range(count)]
    rows = asked_rows(model, len(streams[0]))
    return Maps(a, g, [s.detach() for s in streams], list(found[-count:]), rows, forward)


def mean(matrices: list[Tensor]) -> Tensor:
    return sum(matrices[1:], matrices[0]) / len(matrices)


def positive(matrix: Tensor) -> Tensor:
    return torch.where(matrix > 0, matrix, torch.zeros_like(matrix))


def pooled(rows: list[float], matrix: Tensor) -> Tensor:
    return sum(weight * row for weight, row in zip(rows, matrix, strict=True))


def rolled(layers: list[Tensor]) -> Tensor:
    total = torch.eye(len(layers[0]), dtype=torch.float64)
    for layer in layers:
        total = total + layer @ total
    return total


def without_identity(model: Tiny, rows: list[float], matrix: Tensor) -> Tensor:
    """The asked row of a roll-out; of content rows the identity is left out."""
    row = pooled(rows, matrix)
    own = torch.tensor(rows, dtype=torch.float64)
    return row - own if model.kind == "mean" else row


def attcat(model: Tiny, x: Tensor, target: int) -> Tensor:
    m = maps(model, x, target)
    out = torch.zeros(len(m.rows), dtype=torch.float64)
    for b in range(len(m.a)):
        for j in range(len(out)):
            seen = [float(a[i, j]) for a in m.a[b] for i in range(len(out))]
            out[j] += float(m.x[b][j] @ m.slope[b][j]) * sum(seen) / len(seen)
    return out


def fullgrad(model: Tiny, x: Tensor, target: int, gradient: str) -> Tensor:
    assert gradient == "gradient"
    m = maps(model, x, target)
    out = torch.zeros(len(m.rows), dtype=torch.float64)
    for stream, slope in zip(m.x, m.slope, strict=True):
        for j in range(len(out)):
            out[j] += float(stream[j] @ slope[j])
    return out


def grad_sam(model: Tiny, x: Tensor, target: int) -> Tensor:
    m = maps(model, x, target)
    size = len(m.rows)
    out = torch.zeros(size, dtype=torch.float64)
    for j in range(size):
        terms = [
            float(a[i, j]) * max(float(g[i, j]), 0.0)
            for b in range(len(m.a))
            for a, g in zip(m.a[b], m.g[b], strict=True)
            for i in range(size)
        ]
        out[j] = sum(terms) / len(terms)
    return out


def integrated(model: Tiny, x: Tensor, target: int, steps: int) -> Tensor:
    """E_h (mean over steps of G of the last block)^+."""
    scales = [1.0] if steps == 1 else [k / (steps - 1) for k in range(steps)]
    found = [maps(model, scale * x, target).g[-1] for scale in scales]
    return mean([positive(mean([g[h] for g in found])) for h in range(HEADS)])


def tam(model: Tiny, x: Tensor, target: int, steps: int) -> Tensor:
    m = maps(model, x, target)
    state = pooled(m.rows, mean(m.a[-1]))
    for heads in reversed(m.a[:-1]):
        state = state + state @ mean(heads)
    return state * pooled(m.rows, integrated(model, x, target, steps))


def bt_head(model: Tiny, x: Tensor, target: int, steps: int, start: int) -> Tensor:
    m = maps(model, x, target)
    layers = []
    for a, g in zip(m.a[start:], m.g[start:], strict=True):
        sizes = [float((a[h].T @ g[h]).abs().mean()) for h in range(HEADS)]
        layers.append(sum(sizes[h] / sum(sizes) * a[h] for h in range(HEADS)))
    return pooled(m.rows, integrated(model, x, target, steps) * rolled(layers))


def projected(model: Tiny, forward: Forward, b: int) -> Vectors:
    """v W_O of every head and token."""
    size, weight = WIDTH // HEADS, model.blocks[b].out.weight.detach()
    values = forward.blocks[b].v
    return [
        [weight[:, h * size : (h + 1) * size] @ v.detach() for v in values[h]] for h in range(HEADS)
    ]


def length(vector: Tensor) -> float:
    return math.sqrt(float((vector**2).sum()))


def bt_token(model: Tiny, x: Tensor, target: int, steps: int, start: int) -> Tensor:
    m = maps(model, x, target)
    layers = []
    for b in range(start, len(m.a)):
        p, layer = projected(model, m.forward, b), mean(m.a[b]).clone()
        for j in range(len(m.rows)):
            whole = sum(p[h][j] for h in range(HEADS))
            layer[:, j] *= length(whole) / length(m.x[b][j])
        layers.append(layer)
    return pooled(m.rows, integrated(model, x, target, steps) * rolled(layers))


def iia(model: Tiny, x: Tensor, target: int, steps: int) -> Tensor:
    layers: list[list[Tensor]] = [[], []]
    for i in range(1, steps + 1):
        for k in range(1, steps + 1):
            m = maps(model, i / steps * x, target, k / steps)
            for b in range(2):
                pairs = zip(m.a[b], m.g[b], strict=True)
                layers[b].append(mean([positive(a * g) for a, g in pairs]))
    return without_identity(model, m.rows, rolled([mean(found) for found in layers]))


def tokentm(model: Tiny, x: Tensor, target: int) -> Tensor:
    m = maps(model, x, target)
    size, layers = len(m.rows), []
    for b in range(len(m.a)):
        p, heads = projected(model, m.forward, b), []
        for h in range(HEADS):
            layer = positive(m.a[b][h] * m.g[b][h])
            lengths = [length(p[h][j]) / length(m.x[b][j]) for j in range(size)]
            turned = [
                math.exp(float(p[h][j] @ m.x[b][j]) / length(p[h][j]) / length(m.x[b][j]))
                for j in range(size)
            ]
            for j in range(size):
                layer[:, j] *= lengths[j] * turned[j] / (sum(turned) / size)
            heads.append(layer)
        layers.append(mean(heads))
    row = without_identity(model, m.rows, rolled(layers))
    return row * torch.tensor([length(token) for token in m.x[0]], dtype=torch.float64)


def legrad(model: Tiny, x: Tensor, target: int) -> Tensor:
    forward = run(model, x)
    size = len(forward.embedded)
    out = torch.zeros(size, dtype=torch.float64)
    for values in forward.blocks:
        tokens = layer_norm(values.x1 + values.mlp, model.norm)
        read = pooled(asked_rows(model, size), tokens)
        score = affine(read[None], model.head)[0, target]
        slopes = torch.autograd.grad(score, values.a, retain_graph=True)
        out += sum(positive(g).sum(0) for g in slopes) / (HEADS * size * len(forward.blocks))
    return out


def given(model: Tiny, forward: Forward, b: int) -> Vectors:
    """What token j gives to token i by attention, i itself with it."""
    p, values = projected(model, forward, b), forward.blocks[b]
    size, a = len(values.x), [head.detach() for head in values.a]
    return [
        [
            sum(float(a[h][i, j]) * p[h][j] for h in range(HEADS))
            + (values.x[i].detach() if i == j else 0)
            for j in range(size)
        ]
        for i in range(size)
    ]


def by_rows(matrix: list[list[float]]) -> Tensor:
    return torch.tensor([[c / sum(row) for c in row] for row in matrix], dtype=torch.float64)


def nearness(whole: Tensor, part: Tensor) -> float:
    """ALTI's contribution of a part to a whole."""
    return max(0.0, float(whole.abs().sum() - (whole - part).abs().sum()))


def decomposed(model: Tiny, x: Tensor, method: str) -> Tensor:
    forward = run(model, x)
    total = torch.eye(len(forward.embedded), dtype=torch.float64)
    for b, values in enumerate(forward.blocks):
        parts = given(model, forward, b)
        if method == "alti":
            rows = [
                [nearness(values.x1[i].detach(), t) for t in row] for i, row in enumerate(parts)
            ]
        else:
            rows = [[length(t) for t in row] for row in parts]
        total = by_rows(rows) @ total
    return pooled(asked_rows(model, len(total)), total)


# -- norms behind the block: one layer of nn.TransformerEncoder, for one sample


@dataclass
class PostNorm:
    """Behind the layer, what token j gives to token i behind the first norm and both, the first's
    result."""

    out: Tensor
    once: Vectors
    twice: Vectors
    middle: Tensor


def scaled_by(norm: nn.LayerNorm, part: Tensor, whole: Tensor) -> Tensor:
    """A norm on a part, with the deviation of the whole."""
    deviation = math.sqrt(float(((whole - whole.mean()) ** 2).mean()) + norm.eps)
    return (part - part.mean()) / deviation * norm.weight


def post_norm(layer: nn.TransformerEncoderLayer, x: Tensor) -> PostNorm:
    attention, size, width = layer.self_attn, len(x), x.shape[1]
    heads = attention.num_heads
    q, k, v = (
        (x @ w.T + b).split(width // heads, -1)
        for w, b in zip(
            attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True
        )
    )
    a = [(q[h] @ k[h].T / math.sqrt(width // heads)).softmax(-1) for h in range(heads)]
    w = attention.out_proj.weight.split(width // heads, 1)
    parts = [
        [sum(a[h][i, j] * (w[h] @ v[h][j]) for h in range(heads)) + (x[i] if i == j else 0)
         for j in range(size)] for i in range(size)
    ]  # fmt: skip
    summed = torch.stack([sum(row) for row in parts]) + attention.out_proj.bias
    middle = layer_norm(summed, layer.norm1)
    mlp = layer.linear2(nn.functional.gelu(layer.linear1(middle)))
    once = [[scaled_by(layer.norm1, t, summed[i]) for t in row] for i, row in enumerate(parts)]
    behind = middle + mlp
    twice = [[scaled_by(layer.norm2, t, behind[i]) for t in row] for i, row in enumerate(once)]
    return PostNorm(layer_norm(behind, layer.norm2), once, twice, middle)
