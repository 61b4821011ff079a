"""A Transformer of attention alone, whose values and masks a test can set by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Bare(nn.Module):
    """Attention without norms and MLPs; the head reads the first features of the first token."""

    def __init__(self, blocks: int = 2, bias: Tensor | None = None) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.qkv = nn.ModuleList(nn.Linear(6, 18) for _ in range(blocks))
        self.out = nn.ModuleList(nn.Linear(6, 6) for _ in range(blocks))
        self.head, self.bias = nn.Linear(3, 3), bias
        self.offset = 0.0
        self.double().eval()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.offset
        for qkv, out in zip(self.qkv, self.out, strict=True):
            q, k, v = (t.unflatten(-1, (2, 3)).transpose(1, 2) for t in qkv(x).chunk(3, -1))
            scores = q @ k.mT
            scores = scores if self.bias is None else scores + self.bias
            x = x + out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return self.head(x[:, 0, :3])

    def without_values(self, block: int) -> Bare:
        """Whatever attention of this block reads, it reads nothing."""
        with torch.no_grad():
            self.qkv[block].weight[12:] = 0
            self.qkv[block].bias[12:] = 0
        return self


def features(batch: int = 1) -> Tensor:
    torch.manual_seed(6)
    return torch.randn(batch, 4, 6, dtype=torch.float64)
