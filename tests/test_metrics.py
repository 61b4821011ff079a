"""Every measure of the benchmarks against another way to compute it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.integrate import trapezoid

from ties import slow_order, slow_share
from whyformer.evaluation.tasks.metrics import (
    ORDERS,
    Overlap,
    above_mean,
    area_under_curve,
    average_precision,
    mean_iou,
    min_max,
    overlap,
    removal_order,
    removal_ranks,
    segmentation_precision,
    tied_share,
    token_score,
    top,
)

MAPS = arrays.arrays(float, (5, 4), elements=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
MASKS = arrays.arrays(bool, (5, 4))


def slow_iou(found: np.ndarray, truth: np.ndarray) -> list[float]:
    """Intersection over union of background and foreground, pixel by pixel."""
    values = []
    for wanted in (False, True):
        both = either = 0
        for a, b in zip(found.flat, truth.flat, strict=True):
            both += bool(a) == wanted and bool(b) == wanted
            either += bool(a) == wanted or bool(b) == wanted
        if either:
            values.append(both / either)
    return values


def iou(measured: Overlap) -> float:
    return float(mean_iou(np.array(measured.intersection), np.array(measured.union)))


class TestRemoval:
    def test_most_and_least_relevant_first(self) -> None:
        assert removal_order(np.array([[0.1, 0.9], [0.5, 0.2]]), positive=True).tolist() == [
            1, 2, 3, 0,
        ]  # fmt: skip
        assert removal_order(np.array([0.1, 0.9, 0.5]), positive=False).tolist() == [0, 2, 1]
        assert removal_order(np.array([]), positive=True).tolist() == []

    @given(MAPS, st.booleans(), st.integers(0, 3))
    def test_ties_go_in_a_seeded_random_order(
        self, relevance: np.ndarray, positive: bool, order: int
    ) -> None:
        found = removal_order(relevance, positive, order).tolist()
        assert found == slow_order(relevance.ravel().tolist(), positive, order)

    def test_chance_prefers_no_part_of_the_map(self) -> None:
        """In reading order the upper half of a flat map would go first."""
        flat = np.zeros((60, 60))
        for order in range(ORDERS):
            first = removal_ranks(flat, True, order) < 1800
            for half in (first[:30], first[:, :30]):
                assert half.mean() == pytest.approx(0.5, abs=0.05)
        assert (removal_order(flat, True, 0) != removal_order(flat, True, 1)).any()

    @given(MAPS, st.lists(st.integers(0, 20), max_size=4), st.booleans())
    def test_tied_share_against_counting(
        self, relevance: np.ndarray, cuts: list[int], both_ends: bool
    ) -> None:
        expected = slow_share(relevance.ravel().tolist(), cuts, both_ends)
        assert tied_share(relevance, cuts, both_ends) == pytest.approx(expected)

    def test_words_that_were_not_read_are_not_tied(self) -> None:
        scores = np.array([2.0, 1.0, 1.0, 0.5, -np.inf, -np.inf, -np.inf])
        assert tied_share(scores, [3, 5, 6]) == 0
        assert tied_share(scores, [2]) == pytest.approx(0.5)
        assert tied_share(np.full(3, -np.inf), [1]) == 0

    @given(MAPS, st.sampled_from([0.1, 0.35, 0.5, 0.9]))
    def test_what_is_removed_is_no_less_relevant(self, relevance: np.ndarray, share: float) -> None:
        ranks = removal_ranks(relevance, positive=True)
        gone = ranks < int(20 * share)
        assert gone.sum() == int(20 * share)
        if gone.any():
            assert relevance[gone].min() >= relevance[~gone].max()


class TestArea:
    def test_against_numpy(self) -> None:
        x, y = np.linspace(0, 0.9, 10), np.random.default_rng(0).random(10)
        assert area_under_curve(x, y) == pytest.approx(trapezoid(y, x), abs=1e-12)

    def test_against_thin_rectangles(self) -> None:
        x, y = [0, 0.1, 0.4, 0.9], [1.0, 0.5, 0.7, 0.0]
        grid = np.linspace(0, 0.9, 900_001)
        assert area_under_curve(x, y) == pytest.approx(np.interp(grid, x, y).mean() * 0.9, abs=1e-5)

    def test_the_ceiling_is_nine_tenths(self) -> None:
        assert area_under_curve(np.linspace(0, 0.9, 10), np.ones(10)) == pytest.approx(0.9)

    def test_other_lengths_are_refused(self) -> None:
        with pytest.raises(ValueError, match="expected as many"):
            area_under_curve([0, 1], [1, 2, 3])


class TestSegmentation:
    @given(MAPS, MASKS)
    @settings(max_examples=60)
    def test_overlap_against_pixels_one_by_one(self, heat: np.ndarray, mask: np.ndarray) -> None:
        found = above_mean(heat)
        measured = overlap(found, mask)
        assert measured.correct / measured.pixels == pytest.approx((found == mask).mean())
        assert iou(measured) == pytest.approx(np.mean(slow_iou(found, mask)))

    def test_sums_over_a_data_set(self) -> None:
        rng = np.random.default_rng(0)
        maps, masks = rng.random((3, 6, 6)), rng.random((3, 6, 6)) > 0.5
        parts = [overlap(above_mean(m), mask) for m, mask in zip(maps, masks, strict=True)]
        whole = overlap(np.stack([above_mean(m) for m in maps]), masks)
        for part in ("correct", "pixels", "intersection", "union"):
            summed = np.sum([getattr(p, part) for p in parts], axis=0)
            assert np.array_equal(summed, getattr(whole, part))

    @pytest.mark.parametrize("mask", [np.zeros((4, 4), bool), np.ones((4, 4), bool)])
    def test_empty_and_full_masks(self, mask: np.ndarray) -> None:
        heat = np.eye(4)
        measured = overlap(above_mean(heat), mask)
        assert iou(measured) == pytest.approx(np.mean(slow_iou(above_mean(heat), mask)))
        assert iou(overlap(mask, mask)) == 1

    def test_a_constant_map_has_no_foreground(self) -> None:
        assert not above_mean(np.full((3, 3), 0.7)).any()
        assert not min_max(np.full((3, 3), 0.7)).any()

    @given(MAPS, MASKS)
    @settings(max_examples=60)
    def test_precision_against_scikit_learn(self, heat: np.ndarray, mask: np.ndarray) -> None:
        metrics = pytest.importorskip("sklearn.metrics")
        strength = min_max(heat).ravel()
        truth = np.concatenate([~mask.ravel(), mask.ravel()])
        scores = np.concatenate([1 - strength, strength])
        expected = metrics.average_precision_score(truth, scores)
        assert segmentation_precision(heat, mask) == pytest.approx(expected, abs=1e-12)

    @given(arrays.arrays(bool, 12), arrays.arrays(float, 12, elements=st.sampled_from([0, 0.5, 1])))
    def test_average_precision_against_scikit_learn(
        self, truth: np.ndarray, scores: np.ndarray
    ) -> None:
        metrics = pytest.importorskip("sklearn.metrics")
        if not truth.any():
            assert average_precision(truth, scores) == 0
            return
        expected = metrics.average_precision_score(truth, scores)
        assert average_precision(truth, scores) == pytest.approx(expected, abs=1e-12)

    def test_ties_at_minus_infinity_share_a_threshold(self) -> None:
        """Words that were not read come last together, wherever the evidence among them is."""
        scores = np.array([2.0, 1.0, -np.inf, -np.inf, -np.inf, -np.inf])
        for place in range(2, 6):
            truth = np.zeros(6, bool)
            truth[[1, place]] = True
            assert average_precision(truth, scores) == pytest.approx((1 / 2 + 2 / 6) / 2)

    def test_sizes_must_agree(self) -> None:
        with pytest.raises(ValueError, match="expected the same"):
            overlap(np.zeros((2, 2)), np.zeros((3, 3)))


class TestRationales:
    def test_by_hand(self) -> None:
        """Three words chosen, two of them among the four that people marked."""
        score = token_score({3, 4, 9}, {3, 4, 5, 6})
        assert score.precision == pytest.approx(2 / 3)
        assert score.recall == pytest.approx(1 / 2)
        assert score.f1 == pytest.approx(4 / 7)

    def test_nothing_found_nothing_marked(self) -> None:
        assert token_score([], [1, 2]).f1 == 0
        assert token_score([1, 2], []).f1 == 0
        assert token_score([1], [2]).f1 == 0

    def test_top_words(self) -> None:
        assert top([0.1, 0.5, 0.6, 0.2], 3) == [2, 1, 3]
        assert {tuple(top([0.1, 0.5, 0.5, 0.2], 2, order)) for order in range(8)} == {
            (1, 2), (2, 1),
        }  # fmt: skip
        assert top([1.0], 10) == [0]
