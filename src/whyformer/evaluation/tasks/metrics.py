"""The measures of the benchmarks, in plain arrays: one sample in, numbers out.

Shares are between 0 and 1; tables print them in percent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

#: how many orders are averaged where many places are tied, and from which share on
ORDERS, MANY_TIES = 3, 0.01


def removal_order(relevance: np.ndarray, positive: bool, order: int = 0) -> np.ndarray:
    """Places of a flattened map in the order of their removal.

    Positive perturbation removes the most relevant first, negative the least relevant. Equal
    values go in a random order, which is the same everywhere; ``order`` is the number of another.
    """
    values = np.asarray(relevance, float).reshape(-1)
    keys = -values if positive else values
    found = np.argsort(keys)
    ranked = keys[found]
    same = ranked[1:] == ranked[:-1]
    tied = np.zeros(len(found), bool)
    tied[1:] |= same
    tied[:-1] |= same
    drawn = np.random.default_rng([0, order]).permutation(len(values))[found[tied]]
    found[tied] = found[tied][np.lexsort((drawn, ranked[tied]))]
    return found


def removal_ranks(relevance: np.ndarray, positive: bool, order: int = 0) -> np.ndarray:
    """When each place of a map is removed: 0 first. The first int(n * share) are a share of it."""
    removed = removal_order(relevance, positive, order)
    ranks = np.empty_like(removed)
    ranks[removed] = np.arange(len(removed))
    return ranks.reshape(np.shape(relevance))


def tied_share(relevance: np.ndarray, cuts: Sequence[int], both_ends: bool = False) -> float:
    """The share of places that chance orders: those of equal values that a cut separates.

    A cut takes so many of the most relevant, with ``both_ends`` also of the least relevant.
    Minus infinity stands for a place that is never taken.
    """
    values = np.asarray(relevance, float).reshape(-1)
    ranked = -np.sort(-values[np.isfinite(values)])
    ends = [*cuts, *(len(ranked) - cut for cut in cuts if both_ends)]
    places = np.array([place for place in ends if 0 < place < len(ranked)], int)
    torn = ranked[places][ranked[places] == ranked[places - 1]]
    return float(np.isin(ranked, torn).mean()) if len(ranked) else 0.0


def orders_for(tied: float) -> range:
    """The orders that are averaged: one where ties decide hardly anything."""
    return range(ORDERS if tied > MANY_TIES else 1)


def area_under_curve(shares: Sequence[float], values: Sequence[float]) -> float:
    """Trapezoids over the given shares, not divided by their span: nine tenths at most."""
    x, y = np.asarray(shares, float), np.asarray(values, float)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise ValueError(f"{len(x)} shares and {len(y)} values; expected as many, and at least two")
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum())


@dataclass(frozen=True)
class Overlap:
    """How a thresholded map and a mask agree; sums of these give the figures of a data set.

    ``intersection`` and ``union`` are pixels of the background and of the foreground.
    """

    correct: int
    pixels: int
    intersection: tuple[int, int]
    union: tuple[int, int]


def mean_iou(intersection: np.ndarray, union: np.ndarray) -> np.ndarray:
    """Over background and foreground, the last axis; one that occurs nowhere is left out."""
    present = union > 0
    share = np.divide(intersection, union, out=np.zeros(union.shape), where=present)
    return share.sum(-1) / present.sum(-1)


def overlap(foreground: np.ndarray, mask: np.ndarray) -> Overlap:
    """Compare two boolean maps of the same shape."""
    found, truth = np.asarray(foreground, bool), np.asarray(mask, bool)
    if found.shape != truth.shape:
        raise ValueError(f"a map of {found.shape} and a mask of {truth.shape}; expected the same")
    both, either = (found & truth).sum(), (found | truth).sum()
    neither = found.size - either
    return Overlap(
        correct=int(both + neither),
        pixels=found.size,
        intersection=(int(neither), int(both)),
        union=(int(found.size - both), int(either)),
    )


def min_max(relevance: np.ndarray) -> np.ndarray:
    """From 0 to 1; a map without differences is 0 everywhere."""
    values = np.asarray(relevance, float)
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def is_flat(relevance: np.ndarray) -> bool:
    """No differences, so nothing is more relevant than anything else."""
    return bool(relevance.min() == relevance.max())


def above_mean(relevance: np.ndarray) -> np.ndarray:
    """The foreground by the paper's rule: what lies above the map's own mean."""
    values = np.asarray(relevance, float)
    return values > values.mean()


def segmentation_precision(relevance: np.ndarray, mask: np.ndarray) -> float:
    """The average precision of [1 - map; map] against [background; foreground]."""
    strength, truth = min_max(relevance).reshape(-1), np.asarray(mask, bool).reshape(-1)
    return average_precision(
        np.concatenate([~truth, truth]), np.concatenate([1 - strength, strength])
    )


def average_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    """Precision at every threshold, weighted by the recall gained there; ties share a threshold.

    Without a positive there is nothing to find: 0.
    """
    truth, scores = np.asarray(truth, bool), np.asarray(scores, float)
    if not truth.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    ranked = scores[order]
    last_of_tie = np.r_[ranked[1:] != ranked[:-1], True]
    found, seen = hits[last_of_tie], np.flatnonzero(last_of_tie) + 1
    return float((np.diff(found, prepend=0) * found / seen).sum() / hits[-1])


@dataclass(frozen=True)
class TokenScore:
    """Precision, recall and F1 of the tokens of one rationale."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def token_score(predicted: Collection[int], truth: Collection[int]) -> TokenScore:
    """As ERASER scores one document; a side without tokens scores 0."""
    found = len(set(predicted) & set(truth))
    return TokenScore(
        found / len(set(predicted)) if predicted else 0.0, found / len(set(truth)) if truth else 0.0
    )


def top(scores: Sequence[float] | np.ndarray, count: int, order: int = 0) -> list[int]:
    """Places of the highest scores, best first; equal ones in a random order."""
    return removal_order(np.asarray(scores), positive=True, order=order)[:count].tolist()


def salience_agreement(salience: Sequence[float], drops: Sequence[float]) -> float:
    """SaCo (Wu et al. 2024) of groups of pixels, the most salient first; from -1 to 1.

    Every two groups count by their difference of salience: for, where the more salient one's
    absence makes the prediction drop at least as much, or else against. Without differences: 0.
    """
    found = weight = 0.0
    for i in range(len(salience)):
        for j in range(i + 1, len(salience)):
            apart = salience[i] - salience[j]
            found += apart if drops[i] >= drops[j] else -apart
            weight += abs(apart)
    return found / weight if weight else 0.0


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's; a map without differences has no ranks, and remembers nothing: 0."""
    if is_flat(one) or is_flat(other):
        return 0.0
    return float(np.corrcoef(mean_ranks(one), mean_ranks(other))[0, 1])


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """The rank of every value; equal ones share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[places.reshape(-1)]


def relative_change(before: np.ndarray, after: np.ndarray) -> float:
    """|after - before| / |before|, in the Euclidean norm; 0 where both maps are zero."""
    size, moved = np.linalg.norm(before), np.linalg.norm(after - before)
    return float(moved / size) if size else float(moved > 0)
