"""Benchmarks whose truth is known: what is asked, what counts, and that good methods pass."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whyformer
from whyformer.demo.scenes import Scene
from whyformer.demo.stories import Story, draw_story
from whyformer.errors import InputError
from whyformer.evaluation import evaluate
from whyformer.evaluation.data.samples import Samples, Scenes
from whyformer.evaluation.run.runner import read_records
from whyformer.evaluation.tasks.boxes import Boxes, overlap, share_inside
from whyformer.evaluation.tasks.captions import Captions
from whyformer.evaluation.tasks.captions import caption_scores as words_of
from whyformer.evaluation.tasks.known import Known
from whyformer.evaluation.tasks.pointing import Pointing
from whyformer.evaluation.tasks.writing import Writing, word_places


class Told(Samples[Story]):
    """Given stories."""

    name = "told stories"

    def __init__(self, *stories: Story) -> None:
        self.stories = stories
        self.keys = [str(i) for i in range(len(stories))]

    def __getitem__(self, index: int) -> Story:
        return self.stories[index]


@pytest.fixture(scope="module")
def writer() -> Any:
    return whyformer.load("demo-writer")


@pytest.fixture(scope="module")
def detector() -> Any:
    return whyformer.load("demo-detector")


@pytest.fixture(scope="module")
def clip() -> Any:
    return whyformer.load("demo-clip")


class TestWriting:
    def test_every_character_belongs_to_its_word(self) -> None:
        for seed in range(20):
            story = draw_story(seed)
            places = word_places(story.words)
            spelled = [""] * len(story.words)
            for letter, place in zip(story.text, places, strict=False):
                spelled[place] += letter.strip()
            assert tuple(spelled) == story.words

    def test_stories_that_the_model_answers_wrongly_are_left_out(self, writer: Any) -> None:
        good = draw_story(2)
        bad = replace(good, answer=good.rival)
        known = Known(Writing("stable"), writer, Told(good, bad))
        assert known.keys == ["0"]
        assert known[0] == good
        assert known.notes == (f"left out, because {Writing.unknown}: 1 of 2",)
        with pytest.raises(InputError, match="none of 1 told stories right"):
            Known(Writing("stable"), writer, Told(bad))

    def test_a_word_that_does_not_decide_is_no_truth(self, writer: Any) -> None:
        """With another word there the answer stays, so the story is left out."""
        story = draw_story(9)
        other = replace(story, deciding=story.words.index(story.rival))
        assert Known(Writing("stable"), writer, Told(other, story)).keys == ["1"]

    def test_the_deciding_word_is_looked_for(
        self, writer: Any, tmp_path: Path, monkeypatch: Any
    ) -> None:
        """Of two stories that differ in what they call deciding, one is found."""
        monkeypatch.setattr(Writing, "knows", lambda *_: True)
        good = draw_story(2)
        scores = writer(good.text, target=f" {good.answer}", method="witness").relevance[0, 1:]
        order = scores.argsort(descending=True).tolist()
        told = Told(*(replace(good, deciding=order[i]) for i in range(3)))
        result = evaluate(
            "writing", writer, told, methods=["witness"], out=tmp_path, progress=False
        )
        found = [record["word"] for record in read_records(tmp_path)]
        assert found == [[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]
        assert result is not None
        values = [result.estimates["witness", m].value for m in result.measures[:2]]
        assert values == pytest.approx([100 / 3, 200 / 3])
        assert [m.path for m in result.measures[:2]] == [("word", "top_1"), ("word", "top_2")]
        assert result.cost["witness"] > 0

    def test_the_rival_is_asked_about_too(
        self, writer: Any, tmp_path: Path, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(Writing, "knows", lambda *_: True)
        story = draw_story(5, kind="number")
        asked = whyformer.contrast(f" {story.answer}", f" {story.rival}")
        scores = writer(story.text, target=asked, method="witness").relevance[0, 1:]
        order = scores.argsort(descending=True).tolist()
        told = Told(*(replace(story, deciding=order[i]) for i in range(3)))
        evaluate("writing", writer, told, methods=["witness"], out=tmp_path, progress=False)
        found = [record["rather"] for record in read_records(tmp_path)]
        assert found == [[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]

    def test_a_cache_gives_the_same(self, writer: Any, tmp_path: Path) -> None:
        found = []
        for name in ("one", "two"):
            evaluate(
                "writing", writer, methods=["rollout"], limit=2, out=tmp_path / name,
                cache=tmp_path / "cache", progress=False,
            )  # fmt: skip
            found.append(json.loads((tmp_path / name / "results.json").read_text())["writing"])
        assert found[0] == found[1]
        assert len(list((tmp_path / "cache").rglob("*.npy"))) == 4

    def test_stories_are_the_same_each_time(self) -> None:
        assert (
            Writing("stable").embedded(3)[2]
            == Writing("stable").embedded(9)[2]
            != Writing("stable").embedded(3)[1]
        )


class TestBoxes:
    def test_overlap(self) -> None:
        assert overlap((0, 0, 2, 2), (0, 0, 2, 2)) == 1
        assert overlap((0, 0, 2, 2), (1, 0, 3, 2)) == pytest.approx(1 / 3)
        assert overlap((0, 0, 2, 2), (4, 4, 6, 6)) == 0

    def test_share_inside(self) -> None:
        heat = np.zeros((4, 6))
        heat[1, 2], heat[3, 5], heat[0, 0] = 3, 1, -7
        assert share_inside(heat, (2, 1, 4, 3)) == 0.75
        assert share_inside(np.ones((4, 6)), (2, 1, 4, 3)) == pytest.approx(4 / 24)
        assert share_inside(np.zeros((4, 6)), (2, 1, 4, 3)) == 0

    def test_every_digit_must_be_found(self, detector: Any) -> None:
        scenes = Boxes("stable").embedded(9)
        scene = next(s for s in map(scenes.__getitem__, range(9)) if knows(detector, s))
        moved = replace(scene, masks=np.roll(scene.masks, 48, axis=(1, 2)))
        renamed = replace(scene, labels=scene.labels[::-1])
        assert not knows(detector, moved)
        assert not knows(detector, renamed)

    def test_witness_points_into_the_box(self, detector: Any, tmp_path: Path) -> None:
        result = evaluate(
            "boxes", detector, methods=["witness", "rollout"], limit=4, out=tmp_path, progress=False
        )
        assert result is not None
        inside, gain = (result.estimates["witness", m].value for m in result.measures)
        assert gain > 200
        records = [r for r in read_records(tmp_path) if r["method"] == "witness"]
        assert inside == pytest.approx(100 * np.mean([r["inside"] for r in records]))
        area = 100 * np.mean([r["areas"] for r in records])
        assert gain == pytest.approx(100 * inside / area)
        assert 5 < area < 20


class TestCaptions:
    def test_both_digits_must_be_known(self, clip: Any) -> None:
        task = Captions("stable")
        captioned = task.embedded(9)
        drawn = next(d for d in map(captioned.__getitem__, range(9)) if task.knows(clip, d))
        others = tuple((label + 1) % 10 for label in drawn.scene.labels)
        assert not task.knows(clip, replace(drawn, scene=replace(drawn.scene, labels=others)))

    def test_the_named_digit_gets_more(self, clip: Any, tmp_path: Path) -> None:
        result = evaluate(
            "captions", clip, methods=["witness"], limit=4, out=tmp_path, progress=False
        )
        assert result is not None
        values = {m.path[0]: result.estimates["witness", m].value for m in result.measures}
        assert values["points"] >= 75
        assert values["inside"] > values["other"]
        assert values["named"] >= 50

    def test_words_have_their_own_scores(self, clip: Any) -> None:
        drawn = Captions("stable").embedded(1)[0]
        answer = clip.record(drawn.scene.image, text=[drawn.caption]).explain(0, "witness")
        words = drawn.caption.split()
        part = answer.part("input_ids")
        kept = [
            (piece.text, score)
            for piece, score in zip(part.pieces[0], part.relevance[0].tolist(), strict=True)
            if piece.word is not None
        ]
        assert [word for word, _ in kept] == words
        assert words_of(words, answer).tolist() == pytest.approx([score for _, score in kept])


class TestPointing:
    def test_the_objects_must_be_the_surest_classes(self) -> None:
        swin, task = whyformer.load("demo-swin"), Pointing("stable")
        sample = next(s for s in map(Scenes(2, 20).__getitem__, range(20)) if task.knows(swin, s))
        masks = list(sample.masks.values())
        others = {(label + 1) % 10: mask for label, mask in sample.masks.items()}
        assert not task.knows(swin, replace(sample, masks=others))
        assert not task.knows(swin, replace(sample, masks={10: masks[0], 11: masks[1]}))

    def test_what_is_not_known_is_left_out_and_counted(self, tmp_path: Path) -> None:
        vision, task = whyformer.load("demo-vision"), Pointing("stable")
        scenes = Scenes(2, 6)
        known = [scenes.keys[i] for i in range(6) if task.knows(vision, scenes[i])]
        assert 0 < len(known) < 6
        options: dict[str, Any] = {"methods": ["rollout"], "limit": 6, "progress": False}
        result = evaluate("pointing", vision, known=True, out=tmp_path / "known", **options)
        assert [record["key"] for record in read_records(tmp_path / "known")] == known
        assert result is not None
        assert result.facts["notes"] == (
            f"left out, because the model gets them wrong: {6 - len(known)} of 6"
        )
        evaluate("pointing", vision, out=tmp_path / "all", **options)
        assert len(list(read_records(tmp_path / "all"))) == 6

    def test_other_benchmarks_do_not_choose(self, tmp_path: Path) -> None:
        vision = whyformer.load("demo-vision")
        with pytest.raises(InputError, match="known chooses samples for pointing"):
            evaluate("segmentation", vision, known=True, out=tmp_path)


def knows(detector: Any, scene: Scene) -> bool:
    return Boxes("stable").knows(detector, scene)


def test_the_gradient_is_measured_beside_the_others() -> None:
    usual = Writing("stable").usual_methods()
    assert {"witness", "rollout", "raw_attention", "gradient_x_input"} <= set(usual)


def test_other_models_and_other_data_are_refused(writer: Any, tmp_path: Path) -> None:
    vision = whyformer.load("demo-vision")
    with pytest.raises(InputError, match="writing needs a language model, and demo-vision reads"):
        evaluate("writing", vision, out=tmp_path)
    with pytest.raises(InputError, match="segmentation needs images, and demo-writer is made for"):
        evaluate("segmentation", writer, out=tmp_path)
    with pytest.raises(InputError, match="writing reads samples whose truth is known"):
        evaluate("writing", writer, "photos", out=tmp_path)
