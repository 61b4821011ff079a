"""A whole Transformer walked backwards by hand, with the oracle's rules, against the engine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import oracle
import whyformer

WIDTH, HEADS, HIDDEN, CLASSES, TOKENS = 4, 2, 6, 3, 3
PRESETS = ["paper", "reference", "stable"]
KINDS = ["image", "sequence", "mean"]


class Block(nn.Module):
    """Pre-norm: attention and MLP, a skip connection around each."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            mixed = (q @ k.transpose(-2, -1) * (width // HEADS) ** -0.5).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Tiny(nn.Module):
    """Two blocks over three tokens: patches or vectors behind a class token, or their mean."""

    def __init__(self, kind: str, fused: bool = False) -> None:
        super().__init__()
        self.kind = kind
        self.patches = nn.Conv2d(2, WIDTH, 2, 2)
        self.token = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.empty(1, TOKENS, WIDTH))
        self.blocks = nn.Sequential(Block(fused), Block(fused))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)
        for name, parameter in self.named_parameters():
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            nn.init.normal_(parameter, mean=centre, std=0.3 if "norm" in name else 1.0)
        self.double().eval()

    def inputs(self, batch: int) -> Tensor:
        shapes = {"image": (2, 2, 4), "sequence": (TOKENS - 1, WIDTH), "mean": (TOKENS, WIDTH)}
        return torch.randn(batch, *shapes[self.kind], dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "image":
            x = self.patches(x).flatten(2).transpose(1, 2)
        if self.kind != "mean":
            x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        x = self.norm(self.blocks(x + self.positions))
        return self.head(x.mean(1) if self.kind == "mean" else x[:, 0])


# -- the same by hand, for one sample: its forward ...


@dataclass
class Values:
    """What one block computed; a, q, k, v and mixed are lists over heads."""

    x: Tensor
    normed1: Tensor
    q: list[Tensor]
    k: list[Tensor]
    v: list[Tensor]
    a: list[Tensor]
    mixed: list[Tensor]
    attended: Tensor
    x1: Tensor
    normed2: Tensor
    active: Tensor
    mlp: Tensor


@dataclass
class Forward:
    embedded: Tensor
    blocks: list[Values] = field(default_factory=list)
    tokens: Tensor | None = None
    logits: Tensor | None = None


def layer_norm(x: Tensor, layer: nn.LayerNorm) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    deviation = ((centred**2).mean(-1, keepdim=True) + layer.eps) ** 0.5
    return centred / deviation * layer.weight + layer.bias


def affine(x: Tensor, layer: nn.Linear) -> Tensor:
    return torch.einsum("nj,ij->ni", x, layer.weight) + layer.bias


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def softmax(x: Tensor) -> Tensor:
    return x.exp() / x.exp().sum(-1, keepdim=True)


def run_block(block: Block, x: Tensor, scale: float = 1.0) -> Values:
    """``scale`` multiplies the attention weights."""
    normed1 = layer_norm(x, block.norm1)
    size = WIDTH // HEADS
    parts = affine(normed1, block.qkv).split(size, -1)
    q, k, v = parts[:HEADS], parts[HEADS : 2 * HEADS], parts[2 * HEADS :]
    a = [scale * softmax(q[h] @ k[h].T / math.sqrt(size)) for h in range(HEADS)]
    for weights in a:
        weights.retain_grad()
    mixed = [a[h] @ v[h] for h in range(HEADS)]
    attended = affine(torch.cat(mixed, -1), block.out)
    x1 = x + attended
    normed2 = layer_norm(x1, block.norm2)
    active = gelu(affine(normed2, block.fc1))
    mlp = affine(active, block.fc2)
    return Values(
        x, normed1, list(q), list(k), list(v), a, mixed, attended, x1, normed2, active, mlp
    )


def run(model: Tiny, x: Tensor, last_scale: float = 1.0) -> Forward:
    if model.kind == "image":
        matrix, shape = oracle.convolution_matrix(model.patches.weight.detach(), (2, 4), 2)
        x = (matrix @ x.flatten()).view(shape).flatten(1).T + model.patches.bias
    if model.kind != "mean":
        x = torch.cat([model.token[0], x])
    forward = Forward(embedded=x.detach())
    x = x + model.positions[0]
    for number, block in enumerate(model.blocks):
        values = run_block(block, x, last_scale if number == len(model.blocks) - 1 else 1.0)
        forward.blocks.append(values)
        x = values.x1 + values.mlp
    forward.tokens = layer_norm(x, model.norm)
    pooled = forward.tokens.mean(0) if model.kind == "mean" else forward.tokens[0]
    forward.logits = affine(pooled[None], model.head)[0]
    return forward


# -- ... and its relevance, layer by layer from the logits to the input


@dataclass
class Hand:
    """Blocks are input side first, each (heads, tokens, tokens)."""

    logits: Tensor
    attention: list[Tensor]
    gradient: list[Tensor]
    relevance: list[Tensor]
    input_relevance: Tensor


def block_backwards(
    block: Block, values: Values, relevance: Tensor, rules: oracle.Table
) -> tuple[Tensor, Tensor]:
    """The relevance of a block's input and of its attention."""

    def learned(x: Tensor, layer: nn.Linear, r: Tensor) -> Tensor:
        return rules.learned(x, layer.weight.detach(), r, rules.divide_learned)

    at_x1, at_mlp = rules.sum(values.x1, values.mlp, relevance, rules.divide)
    at_active = learned(values.active, block.fc2, at_mlp)
    at_normed2 = learned(values.normed2, block.fc1, at_active)
    at_x1 = at_x1 + at_normed2

    at_x, at_attended = rules.sum(values.x, values.attended, at_x1, rules.divide)
    at_mixed = learned(torch.cat(values.mixed, -1), block.out, at_attended)
    at_a, at_q, at_k, at_v = [], [], [], []
    for h, r in enumerate(at_mixed.split(WIDTH // HEADS, -1)):
        r_a, r_v = rules.product(values.a[h], values.v[h], r, rules.divide)
        r_q, r_k = rules.product(values.q[h], values.k[h].T, r_a, rules.divide)
        at_a.append(r_a)
        at_q.append(r_q)
        at_k.append(r_k.T)
        at_v.append(r_v)
    at_normed1 = learned(values.normed1, block.qkv, torch.cat([*at_q, *at_k, *at_v], -1))
    return at_x + at_normed1, torch.stack(at_a)


def by_hand(model: Tiny, x: Tensor, target: int, rules: oracle.Table) -> Hand:
    forward = run(model, x)
    forward.logits[target].backward()
    gradient = [torch.stack([a.grad for a in values.a]) for values in forward.blocks]
    with torch.no_grad():
        relevance = torch.zeros(CLASSES, dtype=torch.float64)
        relevance[target] = 1
        pooled = forward.tokens.mean(0) if model.kind == "mean" else forward.tokens[0]
        at_pooled = rules.learned(pooled, model.head.weight, relevance, rules.divide_learned)
        if model.kind == "mean":
            at_tokens = rules.terms(forward.tokens, at_pooled, rules.divide)
        else:
            at_tokens = torch.zeros_like(forward.tokens)
            at_tokens[0] = at_pooled
        maps = []
        for block, values in reversed(list(zip(model.blocks, forward.blocks, strict=True))):
            at_tokens, at_attention = block_backwards(block, values, at_tokens, rules)
            maps.insert(0, at_attention)
        positions = model.positions[0].detach()
        at_input, _ = rules.sum(forward.embedded, positions, at_tokens, rules.divide)
        if model.kind != "mean":
            at_input = at_input[1:]
        if model.kind == "image":
            matrix, _ = oracle.convolution_matrix(model.patches.weight.detach(), (2, 4), 2)
            at_input = oracle.bounded_input(
                x.flatten(), matrix, at_input.T.flatten(), rules.divide_learned
            ).view_as(x)
    attention = [torch.stack(values.a).detach() for values in forward.blocks]
    return Hand(forward.logits.detach(), attention, gradient, maps, at_input)


def attribution(model: Tiny, hand: Hand, preset: str) -> tuple[Tensor, Tensor]:
    """Eq. 13 and 14 as a matrix, and the map: the authors leave out the input-side block of
    images, and normalise the rows of everything else."""
    first = 1 if preset == "reference" and model.kind == "image" else 0
    layers = oracle.attribution_layers(hand.gradient[first:], hand.relevance[first:])
    return rolled_out(model, layers, preset == "reference" and model.kind != "image")


def rolled_out(model: Tiny, layers: list[Tensor], normalise_rows: bool) -> tuple[Tensor, Tensor]:
    """The matrix, and the class token's row of it.

    Mean pooling: the mean of all rows, less the identity, which is the same for every token
    unless the rows are normalised.
    """
    matrix = oracle.roll_out(layers, normalise_rows)
    if model.kind != "mean":
        return matrix, matrix[0]
    return matrix, matrix.mean(0) if normalise_rows else (matrix.sum(0) - 1) / len(matrix)


# -- comparisons


def table(preset: str, kind: str = "attribution") -> oracle.Table:
    """A preset's rules; stable's Eq. 5 is the one of three products."""
    rules = oracle.TABLES[preset, kind]
    if rules.learned is oracle.positive_pairs and preset == "stable":
        return replace(rules, learned=oracle.three_products)
    return rules


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(
        found, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())
    )


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("kind", "fused"),
    [("image", False), ("image", True), ("sequence", False), ("mean", True)],
    ids=["image", "image, fused", "sequence", "mean, fused"],
)
def test_transformer_attribution(kind: str, preset: str, fused: bool) -> None:
    """Attention, gradient and relevance of every block, and the map they make."""
    model = Tiny(kind, fused)
    x, targets = model.inputs(2), [2, 0]
    explainer = whyformer.Explainer(model)
    found = explainer(x, targets, preset=preset, keep_blocks=True)
    whole = explainer(x, targets, preset=preset, matrix=True)
    assert found.tokens.kind == ("image" if kind == "image" else "sequence")
    assert not found.notes
    for n, target in enumerate(targets):
        hand = by_hand(model, x[n], target, table(preset))
        close(found.logits[n], hand.logits, 1e-9)
        for b in range(2):
            close(found.blocks.attention[b][n], hand.attention[b], 1e-9)
            close(found.blocks.gradient[b][n], hand.gradient[b], 1e-9)
            close(found.blocks.relevance[b][n], hand.relevance[b])
        matrix, row = attribution(model, hand, preset)
        close(found.relevance[n], row)
        close(whole.relevance[n], row)
        close(whole.matrix[n], matrix)


@pytest.mark.parametrize("preset", PRESETS)
def test_several_targets_share_a_forward(preset: str) -> None:
    """Denominators that are kept between targets are the denominators."""
    model = Tiny("image")
    x, targets = model.inputs(2), [[0, 2], [1, 0]]
    found = whyformer.Explainer(model)(x, targets, preset=preset)
    for n, row in enumerate(targets):
        for t, target in enumerate(row):
            hand = by_hand(model, x[n], target, table(preset))
            close(found.relevance[n, t], attribution(model, hand, preset)[1])


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
def test_rollout(kind: str, preset: str) -> None:
    """Eq. 15 and 16; the authors normalise the rows."""
    model = Tiny(kind)
    x = model.inputs(2)
    found = whyformer.Explainer(model)(x, method="rollout", preset=preset, matrix=True)
    for n in range(2):
        attention = by_hand(model, x[n], 0, table("paper")).attention
        layers = oracle.rollout_layers(attention)
        matrix, row = rolled_out(model, layers, normalise_rows=preset == "reference")
        close(found.relevance[n], row, 1e-9)
        close(found.matrix[n], matrix, 1e-9)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("rules", ["lrp", "attribution"])
def test_relevance_of_the_pixels(preset: str, rules: str) -> None:
    """LRP down to the pixels: through the position embedding's share and z^B."""
    model = Tiny("image")
    x, targets = model.inputs(2), [1, 2]
    found = whyformer.Explainer(model)(x, targets, method="lrp", preset=preset, rules=rules)
    for n, target in enumerate(targets):
        hand = by_hand(model, x[n], target, table(preset, rules))
        pixels = hand.input_relevance.sum(0)
        close(found.input_relevance[n], pixels)
        patches = torch.stack([pixels[:, :2].sum(), pixels[:, 2:].sum()])
        close(found.relevance[n, 1:], patches)
        assert found.relevance[n, 0] == 0


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
def test_partial_lrp(kind: str, preset: str) -> None:
    """E_h R^+ of the last block, R by the rules of the LRP baseline."""
    model = Tiny(kind)
    x, targets = model.inputs(2), [1, 2]
    found = whyformer.Explainer(model)(x, targets, method="partial_lrp", preset=preset)
    for n, target in enumerate(targets):
        last = by_hand(model, x[n], target, table(preset, "lrp")).relevance[-1]
        positive = torch.stack([torch.where(head > 0, head, 0) for head in last]).sum(0) / HEADS
        row = positive.mean(0) if kind == "mean" else positive[0]
        close(found.relevance[n], row)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_samples_as_tokens(kind: str, preset: str) -> None:
    """Three samples of three tokens: the axes are told apart, and a batch is its samples."""
    model = Tiny(kind)
    x, targets = model.inputs(TOKENS), [0, 1, 2]
    explainer = whyformer.Explainer(model)
    together = explainer(x, targets, preset=preset).relevance
    for n, target in enumerate(targets):
        close(together[n], explainer(x[n : n + 1], target, preset=preset).relevance[0], 1e-8)
