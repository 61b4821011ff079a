"""Whether tokens mix outside attention, where methods that multiply maps do not follow them."""

from __future__ import annotations

import torch

from whyformer.engine.forward_record import Branch
from whyformer.engine.rules import GRADIENT
from whyformer.engine.trace import Trace

Place = tuple[int | slice, ...]


def mixing_branches(trace: Trace) -> int:
    """How many branches without attention carry values from one token to another."""
    return sum(mixes(trace, branch) for branch in trace.seen.branches)


def mixes(trace: Trace, branch: Branch) -> bool:
    """Whether one token of a branch depends on others of the stream that enters it.

    A grid of values behind attention has its channels first or last, which nobody tells: tokens mix
    if they do in both readings.
    """
    out, entry = branch.branch, branch.entry
    if entry.shape != out.shape or out.numel() == 0:
        return False
    if out.ndim == 3:
        return reaches_others(trace, branch, (-1, -1))
    if out.ndim == 4 and branch.maps:
        channels_first, channels_last = (-1, slice(None), -1, -1), (-1, -1, -1)
        return all(reaches_others(trace, branch, at) for at in (channels_first, channels_last))
    return False


def reaches_others(trace: Trace, branch: Branch, token: Place) -> bool:
    """Whether a gradient that starts at one token of the branch ends at others of its entry."""
    seed = torch.zeros_like(branch.branch)
    width = seed[token].numel()
    seed[token] = 1 + torch.arange(width, device=seed.device, dtype=seed.dtype)
    (found,) = trace.backward(GRADIENT, [(branch.branch, seed)], [branch.entry])
    if found is None:
        return False
    found[token] = 0
    return bool(found.any())
