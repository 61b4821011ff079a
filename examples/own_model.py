"""A Transformer written by hand, a task whose truth is known: does the explanation find it?

    python examples/own_model.py [--steps 500]

A sequence holds 16 symbols: 14 letters that mean nothing, a red number and a blue number from 0 to
3, anywhere. The class is their sum. So two tokens decide, and all others are noise. The model
learns this in well under a minute. Then every method is asked about sequences that the model never
saw: is the most relevant token one of the two, and are the two most relevant ones the two?

Rollout finds both every time, and the paper's method is only fourth: here attention goes where the
numbers are, whatever the class. What rollout cannot do is tell classes apart, and this task has one
question a sequence.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer

LENGTH, LETTERS, NUMBERS, WIDTH, HEADS = 16, 8, 4, 64, 4
RED, BLUE, CLASSES = LETTERS, LETTERS + NUMBERS, 2 * NUMBERS - 1


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
        self.symbols = nn.Embedding(LETTERS + 2 * NUMBERS, WIDTH)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.1)
        self.positions = nn.Parameter(torch.randn(1, LENGTH + 1, WIDTH) * 0.1)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))

    def forward(self, ids: Tensor) -> Tensor:
        tokens = torch.cat([self.class_token.expand(len(ids), -1, -1), self.symbols(ids)], 1)
        return self.head(self.blocks(tokens + self.positions)[:, 0])


def draw(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences, their classes, and the two places that decide: (count, 2)."""
    ids = torch.randint(LETTERS, (count, LENGTH))
    places = torch.rand(count, LENGTH).argsort(1)[:, :2]
    red, blue = torch.randint(NUMBERS, (2, count))
    ids.scatter_(1, places, torch.stack([RED + red, BLUE + blue], 1))
    return ids, red + blue, places


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
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

    ids, classes, places = draw(500)
    recording = whyformer.Explainer(model.eval()).record(ids)
    right = recording.logits.argmax(-1) == classes
    print(f"the model is right on {100 * right.float().mean():.1f} % of 500 new sequences")
    print(f"{'the truth is':<26}{'the first':>12}{'the first two':>16}")
    answers = {"chance": torch.rand(len(ids), LENGTH)}
    for name, method in whyformer.methods().items():
        if not method.on_request:
            answers[name] = recording.explain(None, name).relevance[:, 1:]
    for name, relevance in answers.items():
        first = relevance.topk(2).indices
        found = (first[:, :, None] == places[:, None, :]).any(-1)[right].float()
        print(f"{name:<26}{100 * found[:, 0].mean():>10.1f} %{100 * found.prod(1).mean():>14.1f} %")


if __name__ == "__main__":
    main()
