"""Captions: true of their scenes, the same for the same seed, with the words for each digit."""

from __future__ import annotations

import numpy as np
import pytest

from whyformer.demo.captions import (
    NUMBERS,
    RELATIONS,
    Claim,
    draw_captioned,
    inverse,
    one_digit_wrong,
    vocabulary,
)
from whyformer.demo.scenes import SIDE, boxes_of, draw_scene


def test_a_captioned_scene_is_a_function_of_its_seed() -> None:
    first, again = draw_captioned(3), draw_captioned(3)
    assert first.caption == again.caption
    assert np.array_equal(np.asarray(first.scene.image), np.asarray(again.scene.image))
    assert draw_captioned(0, labels=(7, 1)).scene.labels == (7, 1)


@pytest.mark.parametrize("seed", range(12))
def test_the_caption_is_true(seed: int) -> None:
    """Read from the masks: where the digits' pixels lie, on average."""
    captioned = draw_captioned(seed)
    words = captioned.caption.split()
    middles = [np.argwhere(mask).mean(0) for mask in captioned.scene.masks]
    for label, named in zip(captioned.scene.labels, captioned.named, strict=True):
        assert [words[place] for place in named][1] == NUMBERS[label]
        assert words[named[0]] == ("an" if label == 8 else "a")
    first = captioned.scene.labels.index(captioned.claim.first)
    down, across = middles[first] - middles[1 - first]
    assert {"above": down < 0, "below": down > 0, "left": across < 0, "right": across > 0}[words[2]]


def test_the_inverse_says_the_same() -> None:
    assert inverse(Claim(3, "above", 7)).text == "a seven below a three"
    assert inverse(Claim(8, "left of", 2)).text == "a two right of an eight"
    assert Claim(8).text == "an eight"
    for relation in RELATIONS:
        claim = Claim(1, relation, 2)
        assert inverse(inverse(claim)) == claim


def test_wrong_claims_name_one_digit_wrongly() -> None:
    wrong = one_digit_wrong(Claim(3, "above", 7))
    assert len(wrong) == len(set(wrong)) == 16
    for claim in wrong:
        assert claim.relation == "above"
        assert (claim.first == 3) != (claim.second == 7)
        assert claim.first != claim.second


def test_every_word_is_in_the_vocabulary() -> None:
    said = {word for seed in range(20) for word in draw_captioned(seed).caption.split()}
    assert said <= set(vocabulary())


def test_boxes_hold_their_digits_and_nothing_more() -> None:
    for seed in range(6):
        scene = draw_scene(seed, 2)
        for mask, (left, top, right, bottom) in zip(scene.masks, boxes_of(scene), strict=True):
            inside = np.zeros((SIDE, SIDE), bool)
            inside[top:bottom, left:right] = True
            assert not (mask & ~inside).any()
            assert mask[top].any()
            assert mask[bottom - 1].any()
            assert mask[:, left].any()
            assert mask[:, right - 1].any()
