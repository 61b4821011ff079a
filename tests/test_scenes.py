"""Digit scenes: the same for the same seed, with exact masks and digits kept from training."""

from __future__ import annotations

import numpy as np
import pytest

from whyformer.demo.scenes import SIDE, digit_indices, digits, draw_scene, draw_tidy


def test_a_scene_is_a_function_of_its_seed() -> None:
    first, again, other = draw_scene(3, 2), draw_scene(3, 2), draw_scene(4, 2)
    assert np.array_equal(np.asarray(first.image), np.asarray(again.image))
    assert first.labels == again.labels
    assert np.array_equal(first.masks, again.masks)
    assert not np.array_equal(np.asarray(first.image), np.asarray(other.image))


@pytest.mark.parametrize("seed", range(8))
def test_two_different_digits_that_do_not_cover_each_other(seed: int) -> None:
    scene = draw_scene(seed, 2)
    assert scene.image.size == (SIDE, SIDE)
    assert scene.labels[0] != scene.labels[1]
    assert scene.masks.shape == (2, SIDE, SIDE)
    assert scene.masks.reshape(2, -1).sum(1).min() > 80
    assert not (scene.masks[0] & scene.masks[1]).any()


def test_the_mask_is_where_the_digit_was_drawn() -> None:
    """Inside the mask pixels have the ink's colour; around it they have the ground's."""
    for seed in range(6):
        scene = draw_scene(seed, 1)
        grey = np.asarray(scene.image, float).mean(-1)
        mask = scene.masks[0]
        assert abs(grey[mask].mean() - grey[~mask].mean()) > 30
        assert grey[mask].std() < 40


def test_a_tidy_scene_is_a_function_of_its_seed() -> None:
    first, again, other = draw_tidy(3), draw_tidy(3), draw_tidy(4)
    assert np.array_equal(np.asarray(first.image), np.asarray(again.image))
    assert np.array_equal(first.masks, again.masks)
    assert not np.array_equal(np.asarray(first.image), np.asarray(other.image))


@pytest.mark.parametrize("seed", range(8))
def test_tidy_digits_lie_in_quarters_side_by_side(seed: int) -> None:
    scene = draw_tidy(seed, 2)
    assert scene.labels[0] != scene.labels[1]
    places = []
    for mask in scene.masks:
        quarters = mask.reshape(2, SIDE // 2, 2, SIDE // 2).any((1, 3))
        assert quarters.sum() == 1
        places.append(np.argwhere(quarters)[0])
        assert mask.sum() > 80
    assert np.abs(places[0] - places[1]).sum() == 1
    assert draw_tidy(seed, labels=(7, 1)).labels == (7, 1)


def test_given_labels_are_drawn() -> None:
    assert draw_scene(0, labels=(7, 1)).labels == (7, 1)


def test_no_digit_serves_both_training_and_test() -> None:
    for label in range(10):
        kept, used = set(digit_indices(label, "test")), set(digit_indices(label, "train"))
        assert not kept & used
        assert len(kept) > 20
        assert len(kept | used) == (digits()[1] == label).sum()


def test_the_digits_are_scikit_learns() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    data = datasets.load_digits()
    assert np.array_equal(digits()[0], data.images)
    assert np.array_equal(digits()[1], data.target)
