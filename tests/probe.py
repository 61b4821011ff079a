"""Any function as a recorded model, and comparisons with the oracle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import oracle
from whyformer.engine import PRESETS, Table, Trace, record

Part = Callable[..., Tensor]

TABLES = sorted(oracle.TABLES)
every_table = pytest.mark.parametrize(("preset", "table"), TABLES)
every_preset = pytest.mark.parametrize("preset", ["paper", "reference", "stable"])


class Probe(nn.Module):
    """Any function as a model; the attention beside it is what makes it a Transformer."""

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.part = part

    def forward(self, *inputs: Tensor) -> Tensor:
        flat = inputs[0].flatten(1)[:, :2].unsqueeze(-1)
        (flat @ flat.mT).softmax(-1) @ flat
        return self.part(*inputs).flatten(1)


def recorded(part: Part, *inputs: Tensor) -> tuple[Trace, tuple[Tensor, ...]]:
    probe = Probe(part)
    trace = record(probe, inputs)
    return trace, tuple(root.leaf for root in trace.seen.roots)


def relevances(
    part: Part, inputs: tuple[Tensor, ...], relevance: Tensor, table: Table
) -> tuple[Tensor, ...]:
    """The relevance of every input of a part, given that of its output."""
    trace, roots = recorded(part, *inputs)
    return tuple(trace.backward(table, [(trace.output, relevance.flatten(1))], roots))


def engine_table(preset: str, table: str) -> Table:
    return getattr(PRESETS[preset], table)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def by_sample(rule: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    return torch.stack([rule(*sample) for sample in zip(*tensors, strict=True)])


def pairs_by_sample(rule: Callable[..., oracle.Pair], *tensors: Tensor) -> oracle.Pair:
    found = [rule(*sample) for sample in zip(*tensors, strict=True)]
    return torch.stack([u for u, _ in found]), torch.stack([v for _, v in found])


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(
        found, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())
    )


def learned_tolerance(preset: str, table: str) -> float:
    """The stable preset's Eq. 5 takes three products and gives 1e-5 of |x| |w| away."""
    return 1e-3 if (preset, table) == ("stable", "attribution") else 1e-9


def through(part: Part, inputs: tuple[Tensor, ...], slot: Tensor, table: Table) -> list[Tensor]:
    """What arrives at each input; nothing is zero."""
    found = relevances(part, inputs, slot, table)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def derivative(part: Part, inputs: tuple[Tensor, ...], slot: Tensor) -> list[Tensor]:
    """Autograd's gradient, without the engine."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    return list(torch.autograd.grad(part(*leaves), leaves, slot))
