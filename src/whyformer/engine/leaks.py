"""Whether tokens mix outside attention, where methods that multiply maps do not follow them."""

from __future__ import annotations

import torch

from whyformer.engine.forward_record import Branch
from whyformer.engine.graph import nodes
from whyformer.engine.rules import GRADIENT
from whyformer.engine.trace import Trace


def mixing_branches(trace: Trace) -> int:
    """How many branches without attention carry values from one token to another."""
    return sum(mixes(trace, branch) for branch in trace.seen.branches)


def mixes(trace: Trace, branch: Branch) -> bool:
    """Whether one token of a branch depends on others of the stream that enters it."""
    out, entry = branch.branch, branch.entry
    if out.ndim != 3 or entry.shape != out.shape or min(out.shape[:2]) == 0:
        return False
    seed = torch.zeros_like(out)
    seed[-1, -1] = 1 + torch.arange(out.shape[-1], device=out.device, dtype=out.dtype)
    (found,) = trace.backward(GRADIENT, [(out, seed)], [entry])
    if found is None:
        return False
    found[-1, -1] = 0
    return bool(found.any())


def mixing_convolutions(trace: Trace) -> int:
    """How many convolutions of what attention made read tokens that their neighbours read too.

    Those before attention make the tokens, and those whose windows do not overlap merge them.
    """
    attended = {mix.out.grad_fn for attention in trace.seen.attention for mix in attention.mixes}
    return sum(
        convolution.overlaps
        and convolution.maps > 0
        and any(node in attended for node in nodes([convolution.out]))
        for convolution in trace.seen.convolutions
    )
