"""Figures with what they are worth: bootstrap intervals, and tests between methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
#: draws at a time: memory does not grow with their number
BLOCK = 50
SEED = 0

Figure = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Estimate:
    """A figure in percent with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """How much one method's figure lies above another's, in percentage points, and p."""

    value: float
    low: float
    high: float
    p: float


class Bootstrap:
    """Means of columns over the samples, and over samples that are drawn again.

    All columns see the same draws, so that differences between them are paired. A ratio of sums
    is a ratio of means, so every figure of a data set can be had from the means of columns.
    """

    def __init__(self, numbers: np.ndarray) -> None:
        values = np.asarray(numbers, float)
        rng = np.random.default_rng(SEED)
        even = np.full(len(values), 1 / len(values))
        draws = (
            rng.multinomial(len(values), even, size=BLOCK) @ values / len(values)
            for _ in range(0, RESAMPLES, BLOCK)
        )
        self._means, self._again = values.mean(0), np.concatenate(list(draws))

    def estimate(self, columns: slice, figure: Figure) -> Estimate:
        value, again = self._figure(columns, figure)
        low, high = np.quantile(again, [0.025, 0.975])
        return Estimate(value, float(low), float(high))

    def difference(self, one: slice, other: slice, figure: Figure) -> Difference:
        """Two-sided: twice the share of draws in which the difference is not on its own side."""
        value, again = self._figure(one, figure)
        value_of_other, again_of_other = self._figure(other, figure)
        apart = again - again_of_other
        low, high = np.quantile(apart, [0.025, 0.975])
        beyond = min((apart <= 0).sum(), (apart >= 0).sum())
        p = min(1.0, 2 * (beyond + 1) / (len(apart) + 1))
        return Difference(value - value_of_other, float(low), float(high), float(p))

    def _figure(self, columns: slice, figure: Figure) -> tuple[float, np.ndarray]:
        return 100 * float(figure(self._means[columns])), 100 * figure(self._again[:, columns])


def holm(chances: Sequence[float]) -> list[float]:
    """p-values of several tests, corrected so that one false alarm among all stays rare."""
    order = sorted(range(len(chances)), key=chances.__getitem__)
    corrected = [0.0] * len(chances)
    highest = 0.0
    for place, i in enumerate(order):
        highest = max(highest, min(1.0, chances[i] * (len(chances) - place)))
        corrected[i] = highest
    return corrected
