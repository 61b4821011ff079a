"""A regression has one output and no classes. Why is the number high, why is it low?

    python examples/regression_head.py

A sequence of 12 symbols is worth the sum of its symbols' prices. Most are free; "plus" adds one and
"minus" takes one away. The target function says which way to ask: `logits[:, 0]` is "why so high",
`-logits[:, 0]` is "why so low". The truth is known: the former should find the plus, the latter the
minus. Chance would be 8 % each. `generic_attention` finds them every time here; the paper's method
turns the right way, and is wrong often.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer

LENGTH, FREE, WIDTH = 12, 8, 32
PLUS, MINUS = FREE, FREE + 1


class Regressor(nn.Module):
    """PyTorch's own encoder with a class token and one output."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(FREE + 2, WIDTH)
        self.class_token = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.1)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, ids: Tensor) -> Tensor:
        tokens = torch.cat([self.class_token.expand(len(ids), -1, -1), self.symbols(ids)], 1)
        return self.head(self.encoder(tokens)[:, 0])


def draw(count: int, exactly_one: bool = False) -> tuple[Tensor, Tensor]:
    """Sequences and what they are worth; ``exactly_one`` plus and one minus, or zero to two."""
    ids = torch.randint(FREE, (count, LENGTH))
    for symbol in (PLUS, MINUS):
        for _ in range(1 if exactly_one else 2):
            places = torch.randint(LENGTH // 2, (count,)) * 2 + (symbol == MINUS)
            chosen = torch.ones(count) if exactly_one else torch.rand(count) < 0.5
            rows = chosen.nonzero().flatten()
            ids[rows, places[rows]] = symbol
    return ids, (ids == PLUS).sum(1).float() - (ids == MINUS).sum(1).float()


def main() -> None:
    torch.set_num_threads(1)  # the fastest for so small a model
    torch.manual_seed(0)
    model = Regressor()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(400):
        ids, worth = draw(128)
        loss = F.mse_loss(model(ids)[:, 0], worth)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    ids, worth = draw(300, exactly_one=True)
    recording = whyformer.Explainer(model.eval()).record(ids)
    error = (recording.logits[:, 0] - worth).abs().mean()
    print(f"mean error on 300 new sequences with one plus and one minus: {error:.2f}")
    print(f"{'most relevant token is':<42}{'plus':>8}{'minus':>8}")
    questions = {
        "why so high?": lambda logits: logits[:, 0],
        "why so low?": lambda logits: -logits[:, 0],
    }
    for method in ("transformer_attribution", "generic_attention"):
        for question, target in questions.items():
            relevance = recording.explain(target, method).relevance
            first = relevance.masked_fill(~recording.tokens.content, -torch.inf).argmax(1) - 1
            symbol = ids[torch.arange(len(ids)), first]
            shares = [100 * (symbol == kind).float().mean() for kind in (PLUS, MINUS)]
            print(f"{method:<26}{question:<16}{shares[0]:>6.1f} %{shares[1]:>6.1f} %")


if __name__ == "__main__":
    main()
