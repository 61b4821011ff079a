"""Stories: the same for the same seed, one word decides, what is asked is kept from training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from whyformer.demo.stories import (
    FILLERS,
    HELP,
    KINDS,
    Story,
    draw_story,
    exchanged,
    held_out,
    spelled,
    tell,
    vocabulary,
)

EVERY = [*KINDS, "number"]


def asked(story: Story) -> str:
    """The answer, found by reading the story as a person does, without its truth."""
    words = list(story.words)
    if story.kind == "number":
        subject = words[words.index("near") - 1]
        return "looks" if FILLERS["noun"].index(subject) < 10 else "look"
    kind = KINDS[story.kind]
    question = kind.question.split()
    start = len(words) - question.index("{answer}")
    known = words[start + question.index("{known}")]
    fact = kind.fact.split()
    for place in range(start):
        read = words[place : place + len(fact)]
        fits = all(slot[0] == "{" or slot == word for slot, word in zip(fact, read, strict=False))
        if len(read) == len(fact) and fits and read[fact.index("{known}")] == known:
            stated = read[fact.index("{asked}")]
            return HELP.get(stated, stated)
    raise AssertionError(story.text)


@pytest.mark.parametrize("kind", EVERY)
def test_another_word_that_decides_brings_the_answer_a_reader_finds(kind: str) -> None:
    story = draw_story(3, kind=kind)
    others = exchanged(story)
    assert len(others) >= 5
    for other in others:
        assert asked(other) == other.answer
        differing = [i for i, word in enumerate(story.words) if word != other.words[i]]
        assert differing == [story.deciding]


def test_a_story_is_a_function_of_its_seed() -> None:
    assert draw_story(3) == draw_story(3)
    assert draw_story(3) != draw_story(4)
    assert draw_story(3) != draw_story(3, "train")


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_truth_is_what_a_reader_finds(kind: str, split: str) -> None:
    for seed in range(40):
        story = draw_story(seed, split, kind)
        assert story.kind == kind
        assert asked(story) == story.answer
        deciding = story.words[story.deciding]
        assert story.words.count(deciding) == 1
        assert deciding == story.answer or kind in ("need", "number")
        assert len({story.words[place] for place in story.pointing}) == (kind != "number")


@pytest.mark.parametrize("kind", list(KINDS))
def test_another_deciding_word_is_another_answer(kind: str) -> None:
    for seed in range(20):
        story = draw_story(seed, kind=kind)
        unused = [w for w in FILLERS[KINDS[kind].asked] if w not in story.words]
        words = list(story.words)
        words[story.deciding] = unused[0]
        changed = asked(replace(story, words=tuple(words)))
        assert changed == HELP.get(unused[0], unused[0]) != story.answer


def test_a_rival_of_the_same_kind_stands_in_the_story() -> None:
    for seed in range(60):
        story = draw_story(seed)
        if story.kind == "number":
            assert {story.answer, story.rival} == {"looks", "look"}
            continue
        stated = {HELP.get(word, word) for word in story.words}
        assert story.rival in stated
        assert story.rival != story.answer


def test_no_story_serves_both_training_and_test() -> None:
    for seed in range(60):
        for split in ("train", "test"):
            words, _ = tell(np.random.default_rng(seed), split)
            assert held_out(words) == (split == "test")


def test_every_word_is_in_the_vocabulary() -> None:
    known = set(vocabulary())
    for seed in range(200):
        words, asks = tell(np.random.default_rng(seed), "train")
        assert set(words) <= known
        assert all(words[ask.place] == ask.answer for ask in asks)
        assert words[-1] == "."


def test_spelling() -> None:
    assert spelled(["where", "is", "tom", "?", "at", "the", "park", "."]) == (
        "where is tom? at the park."
    )
