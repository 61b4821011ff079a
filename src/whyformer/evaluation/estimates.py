"""Means with what they are worth: bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
SEED = 0


@dataclass(frozen=True)
class Estimate:
    """A figure in percent with its 95 % interval, from ``n`` samples."""

    value: float
    low: float
    high: float
    n: int

    def as_dict(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


def bootstrap(per_sample: np.ndarray, figure: Callable[[np.ndarray], np.ndarray]) -> Estimate:
    """A figure of a data set, and the spread it has when samples are drawn again.

    ``per_sample`` is (samples, numbers); ``figure`` maps means of the numbers, (..., numbers), to
    shares. A ratio of sums is a ratio of means, so every figure of a data set can be had so.
    """
    values = np.asarray(per_sample, float)
    rng = np.random.default_rng(SEED)
    even = np.full(len(values), 1 / len(values))
    draws = (rng.multinomial(len(values), even) @ values / len(values) for _ in range(RESAMPLES))
    again = 100 * figure(np.stack(list(draws)))
    low, high = np.quantile(again, [0.025, 0.975])
    return Estimate(100 * float(figure(values.mean(0))), float(low), float(high), len(values))


def mean(per_sample: np.ndarray) -> Estimate:
    """The mean of one number a sample."""
    return bootstrap(np.asarray(per_sample, float)[:, None], lambda means: means[..., 0])
