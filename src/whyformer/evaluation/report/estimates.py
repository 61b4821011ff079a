"""Figures with what they are worth: bootstrap intervals, and permutation tests between methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
#: random exchanges for each comparison of a column, so that a corrected p can be small: 1 / 40
EXCHANGES = 40
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


class Resampled:
    """Means of columns over the samples, over samples drawn again, and over a half of them.

    All columns see the same draws, so that differences between them are paired. A ratio of sums
    is a ratio of means, so every figure of a data set can be had from the means of columns. Where
    the p of many ``comparisons`` is corrected, more draws are needed to tell anything.
    """

    def __init__(self, values: np.ndarray, comparisons: int = 1) -> None:
        count = len(values)
        rng = np.random.default_rng(SEED)
        even = np.full(count, 1 / count)
        again, swapped = [], []
        for _ in range(0, RESAMPLES, BLOCK):
            again.append(rng.multinomial(count, even, size=BLOCK) @ values / count)
            swapped.append(rng.integers(0, 2, (BLOCK, count)) @ values / count)
        for _ in range(RESAMPLES, EXCHANGES * comparisons, BLOCK):
            swapped.append(rng.integers(0, 2, (BLOCK, count)) @ values / count)
        self._means = values.mean(0)
        self._again, self._swapped = np.concatenate(again), np.concatenate(swapped)

    def estimate(self, columns: slice, figure: Figure) -> Estimate:
        value, again = self._figure(columns, figure)
        low, high = np.quantile(again, [0.025, 0.975])
        return Estimate(value, float(low), float(high))

    def difference(self, one: slice, other: slice, figure: Figure) -> Difference:
        """With p: how often two methods that change names at random, sample by sample, differ so.

        A few samples never tell anything: with five, p is above 0.06.
        """
        value, again = self._figure(one, figure)
        value_of_other, again_of_other = self._figure(other, figure)
        low, high = np.quantile(again - again_of_other, [0.025, 0.975])
        moved = self._swapped[:, other] - self._swapped[:, one]
        apart = figure(self._means[one] + moved) - figure(self._means[other] - moved)
        observed = value - value_of_other
        as_large = (100 * np.abs(apart) >= abs(observed) - 1e-9).sum()
        p = (as_large + 1) / (len(apart) + 1)
        return Difference(observed, float(low), float(high), float(p))

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
