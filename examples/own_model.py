"""A Transformer written by hand, a task whose truth is known: does the explanation find it?

    python examples/own_model.py [--steps 1500]

A sequence holds 16 random symbols. One of them is a key; the class is the symbol right behind the
key. So two tokens decide, the key and its neighbour, and all others are noise. The model learns
this in well under a minute. Then every method is asked for the most relevant tokens of sequences
that the model never saw: how often are they the true ones?
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer

LENGTH, SYMBOLS, KEY, WIDTH, HEADS = 16, 8, 8, 64, 4


class Block(nn.Module):
    """Attention as one writes it oneself: two products with a softmax between them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.gather = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attention = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        x = x + self.gather((attention @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class Classifier(nn.Module):
    """A class token in front, two blocks, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS + 1, WIDTH)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.1)
        self.positions = nn.Parameter(torch.randn(1, LENGTH + 1, WIDTH) * 0.1)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS))

    def forward(self, ids: Tensor) -> Tensor:
        tokens = torch.cat([self.class_token.expand(len(ids), -1, -1), self.symbols(ids)], 1)
        return self.head(self.blocks(tokens + self.positions)[:, 0])


def draw(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences, their classes, and the place of the key."""
    ids = torch.randint(SYMBOLS, (count, LENGTH))
    place = torch.randint(LENGTH - 1, (count,))
    rows = torch.arange(count)
    ids[rows, place] = KEY
    return ids, ids[rows, place + 1], place


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)  # the fastest for so small a model
    torch.manual_seed(0)
    model = Classifier()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    for _ in range(steps):
        ids, classes, _ = draw(128)
        loss = F.cross_entropy(model(ids), classes)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()

    ids, classes, place = draw(500)
    explainer = whyformer.Explainer(model.eval())
    recording = explainer.record(ids)
    right = recording.logits.argmax(-1) == classes
    print(f"the model is right on {100 * right.float().mean():.1f} % of 500 new sequences")
    print(f"{'most relevant token is':<26}{'the answer':>12}{'key or answer':>16}")
    for name in [*whyformer.methods(), "chance"]:
        if name == "chance":
            first = torch.randint(LENGTH, place.shape)
        elif whyformer.methods()[name].on_request:
            continue
        else:
            relevance = recording.explain(None, name).relevance
            first = relevance.masked_fill(~recording.tokens.content, -torch.inf).argmax(-1) - 1
        answer, either = first == place + 1, (first == place) | (first == place + 1)
        shares = (100 * found[right].float().mean() for found in (answer, either))
        print(f"{name:<26}{next(shares):>10.1f} %{next(shares):>14.1f} %")


if __name__ == "__main__":
    main()
