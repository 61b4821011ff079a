"""Orders of equally relevant places, the slow way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def slow_order(values: Sequence[float], positive: bool, order: int) -> list[int]:
    """By relevance; equal ones by the place that a seeded permutation gives them."""
    drawn = np.random.default_rng([0, order]).permutation(len(values)).tolist()
    sign = -1 if positive else 1
    return sorted(range(len(values)), key=lambda i: (sign * values[i], drawn[i]))


def slow_share(values: Sequence[float], cuts: Sequence[int], both_ends: bool = False) -> float:
    """The share of places that some cut may take or leave, by chance."""
    chance = set()
    for sign in (1, -1) if both_ends else (1,):
        for i, value in enumerate(values):
            before = sum(sign * other > sign * value for other in values)
            not_behind = sum(sign * other >= sign * value for other in values)
            if any(before < cut < not_behind for cut in cuts):
                chance.add(i)
    return len(chance) / len(values)
