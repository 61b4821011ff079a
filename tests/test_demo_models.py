"""The models of known truth: from their directories by transformers alone, as good as they say."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import whyformer
from whyformer.demo.stories import FILLERS, KINDS, draw_story, exchanged, vocabulary
from whyformer.evaluation.tasks.writing import answers
from whyformer.models.catalogue import EMBEDDED

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "training"))


def stated(name: str, number: int = 0) -> float:
    """A share that a model's card gives, by its order."""
    found = re.findall(r"(\d+\.\d\d) %", (EMBEDDED[name].path / "README.md").read_text())
    return float(found[number]) / 100


def falls(losses: list[float], window: int) -> bool:
    return sum(losses[-window:]) < 0.9 * sum(losses[:window])


def loaded(name: str, family: str) -> Any:
    import transformers

    path = EMBEDDED[name].path
    return getattr(transformers, family).from_pretrained(path, dtype=torch.float32).eval()


def tokenizer_of(name: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(EMBEDDED[name].path)


class TestWriter:
    def test_the_tokenizer_knows_every_word_and_keeps_it_whole(self) -> None:
        tokenizer = tokenizer_of("demo-writer")
        story = draw_story(2)
        pieces = tokenizer(story.text)["input_ids"]
        assert tokenizer.convert_ids_to_tokens(pieces) == [tokenizer.bos_token, *story.words]
        assert tokenizer.decode(pieces, skip_special_tokens=True) == story.text
        numbers = tokenizer.convert_tokens_to_ids(vocabulary())
        assert tokenizer.unk_token_id not in numbers
        assert tokenizer("a zebra")["input_ids"][-1] == tokenizer.unk_token_id

    def test_it_answers_questions_on_facts_it_never_saw(self) -> None:
        import writer

        model = loaded("demo-writer", "AutoModelForCausalLM")
        measured = writer.accuracy(model, tokenizer_of("demo-writer"), 300)
        assert measured >= 0.97
        assert stated("demo-writer") >= 0.98

    def test_the_deciding_word_decides_and_facts_not_asked_for_do_not(self) -> None:
        """Any other word there brings its own answer; another filler elsewhere changes nothing."""
        why = whyformer.load("demo-writer")
        for seed in range(14):
            story = draw_story(seed, kind=[*KINDS, "number"][seed % 7])
            assert all(answers(why, other) for other in exchanged(story))
            free = [
                (place, slot)
                for place, word in enumerate(story.words)
                for slot, words in FILLERS.items()
                if word in words and place not in (story.deciding, *story.pointing)
            ]
            for place, slot in free:
                words = list(story.words)
                words[place] = next(word for word in FILLERS[slot] if word not in words)
                assert answers(why, replace(story, words=tuple(words)))

    def test_it_goes_on_as_its_stories_do(self) -> None:
        model, tokenizer = (
            loaded("demo-writer", "AutoModelForCausalLM"),
            tokenizer_of("demo-writer"),
        )
        for seed in range(5):
            story = draw_story(seed, kind="place")
            encoding = tokenizer(story.text, return_tensors="pt")
            written = model.generate(**encoding, max_new_tokens=3, do_sample=False)
            said = tokenizer.decode(written[0, -3:])
            assert said.removesuffix(".").split()[0] == story.answer
            assert said.removesuffix(".").split()[1] in FILLERS["container"]

    def test_it_loads_by_name(self) -> None:
        why = whyformer.load("demo-writer")
        story = draw_story(2)
        explanation = why(story.text, target=f" {story.answer}")
        assert why.kind == EMBEDDED["demo-writer"].kind == "language"
        assert explanation.relevance.shape == (1, len(story.words) + 1)

    def test_an_explanation_finds_the_deciding_word(self) -> None:
        model, tokenizer = (
            loaded("demo-writer", "AutoModelForCausalLM"),
            tokenizer_of("demo-writer"),
        )
        story = draw_story(2)
        ids = tokenizer(story.text, return_tensors="pt").input_ids
        answer, rival = tokenizer.convert_tokens_to_ids([story.answer, story.rival])
        last = ids.shape[1] - 1
        target = whyformer.contrast((last, answer), (last, rival))
        found = whyformer.Explainer(model)({"input_ids": ids}, target).relevance[0]
        assert found.shape == (len(story.words) + 1,)
        assert int(found.argmax()) - 1 in (story.deciding, *story.pointing)

    @pytest.mark.slow
    def test_a_tiny_one_learns(self) -> None:
        import writer

        tokenizer = writer.make_tokenizer()
        model = writer.make_model(tokenizer, width=32, depth=2)
        assert falls(writer.train(model, tokenizer, 60, 8, 3e-3, 0), 10)


class TestClip:
    def test_it_finds_captions_of_unseen_scenes(self) -> None:
        import clip

        model = loaded("demo-clip", "AutoModel")
        measured = clip.accuracy(model, tokenizer_of("demo-clip"), 60)
        assert measured["caption"] >= stated("demo-clip") - 0.1
        assert measured["digit"] >= stated("demo-clip", 2) - 0.1

    def test_its_own_processor_prepares_both(self) -> None:
        from transformers import AutoImageProcessor

        from whyformer.demo.captions import draw_captioned

        path = EMBEDDED["demo-clip"].path
        processor = AutoImageProcessor.from_pretrained(path, backend="pil")
        captioned = draw_captioned(5)
        pixels = processor([captioned.scene.image], return_tensors="pt")["pixel_values"]
        exact = torch.frombuffer(bytearray(captioned.scene.image.tobytes()), dtype=torch.uint8)
        exact = exact.reshape(96, 96, 3).permute(2, 0, 1).float() / 127.5 - 1
        assert torch.allclose(pixels[0], exact, atol=1e-5)
        pieces = tokenizer_of("demo-clip")(captioned.caption)["input_ids"]
        assert len(pieces) == len(captioned.caption.split()) + 2

    def test_the_text_is_read_at_its_end(self) -> None:
        """CLIP pools at the first end token: what stands behind it changes nothing."""
        model, tokenizer = loaded("demo-clip", "AutoModel"), tokenizer_of("demo-clip")
        alone = tokenizer(["a three"], return_tensors="pt")
        padded = tokenizer(["a three"], padding="max_length", return_tensors="pt")
        assert padded["input_ids"].shape[1] > alone["input_ids"].shape[1]
        with torch.no_grad():
            first, second = (model.text_model(**texts).pooler_output for texts in (alone, padded))
        assert torch.allclose(first, second, atol=1e-5)

    def test_it_is_explained(self) -> None:
        import clip
        from whyformer.demo.captions import draw_captioned

        model, tokenizer = loaded("demo-clip", "AutoModel"), tokenizer_of("demo-clip")
        captioned = draw_captioned(5)
        pixels = clip.make_processor()([captioned.scene.image], return_tensors="pt")
        inputs = {**tokenizer([captioned.caption], return_tensors="pt"), **pixels}
        why = whyformer.Explainer(model, output="logits_per_image")
        explanation = why(inputs, 0)
        assert explanation.part("pixel_values").relevance.shape == (1, 37)
        assert explanation.part("input_ids").relevance.shape == inputs["input_ids"].shape

    @pytest.mark.slow
    def test_a_tiny_one_learns(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import clip
        import pool

        monkeypatch.setattr(pool, "KEPT", tmp_path)
        scenes = pool.make_pool(32, 2, tidy=True, patch=clip.PATCH)
        tokenizer = clip.make_tokenizer()
        model = clip.make_model(tokenizer)
        assert falls(clip.train(model, tokenizer, scenes, 30, 8, 1e-3, 0), 5)


class TestDetector:
    def test_it_finds_unseen_digits(self) -> None:
        import detector

        model = loaded("demo-detector", "AutoModelForObjectDetection")
        found, right = detector.recall(model, 60)
        assert found >= stated("demo-detector") - 0.1
        assert right >= stated("demo-detector", 1) - 0.1

    def test_its_own_processor_gives_boxes_in_pixels(self) -> None:
        from transformers import AutoImageProcessor

        import detector
        from whyformer.demo.scenes import boxes_of, draw_tidy

        path = EMBEDDED["demo-detector"].path
        processor = AutoImageProcessor.from_pretrained(path, backend="pil")
        model = loaded("demo-detector", "AutoModelForObjectDetection")
        scene = draw_tidy(4, 1)
        large = scene.image.resize((192, 288))
        with torch.no_grad():
            told = model(**processor([large], return_tensors="pt"))
        answer = processor.post_process_object_detection(told, 0.3, [(288, 192)])[0]
        truth = torch.from_numpy(boxes_of(scene)).float() * torch.tensor([2.0, 3.0, 2.0, 3.0])
        best = answer["scores"].argmax()
        assert int(answer["labels"][best]) == scene.labels[0]
        assert float(detector.overlaps(truth, answer["boxes"][best : best + 1])) > 0.5
        assert model.config.id2label[3] == "3"

    def test_it_loads_by_name(self) -> None:
        from whyformer.demo.scenes import draw_tidy

        why = whyformer.load("demo-detector")
        scene = draw_tidy(4, 1)
        found = why.detections(scene.image)
        assert why.kind == EMBEDDED["demo-detector"].kind == "detection"
        assert found[0].label == str(scene.labels[0])

    def test_overlaps(self) -> None:
        import detector

        first = torch.tensor([[0.0, 0, 2, 2], [4, 4, 6, 6]])
        second = torch.tensor([[0.0, 0, 2, 2], [1, 0, 3, 2]])
        assert detector.overlaps(first, second).tolist() == [
            pytest.approx([1.0, 1 / 3]), pytest.approx([0.0, 0.0]),
        ]  # fmt: skip

    def test_it_is_explained(self) -> None:
        import detector
        from whyformer.demo.scenes import draw_tidy

        model = loaded("demo-detector", "AutoModelForObjectDetection")
        pixels = detector.make_processor()([draw_tidy(4, 1).image], return_tensors="pt")
        with torch.no_grad():
            scores = model(**pixels).logits[0].softmax(-1)[:, :-1]
        token, digit = divmod(int(scores.argmax()), scores.shape[1])
        explanation = whyformer.Explainer(model, output="logits")(dict(pixels), (token, digit))
        assert explanation.image_map().shape[-2:] == (96, 96)

    @pytest.mark.slow
    def test_a_tiny_one_learns(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import detector
        import pool

        monkeypatch.setattr(pool, "KEPT", tmp_path)
        pools = [pool.make_pool(16, n, tidy=True, patch=detector.PATCH) for n in (1, 2)]
        assert falls(detector.train(detector.make_model(), pools, 20, 8, 1e-3, 0), 5)


class TestSwin:
    def test_it_names_unseen_digits(self) -> None:
        import swin

        model = loaded("demo-swin", "AutoModelForImageClassification")
        assert swin.accuracy(model, 60, 1) >= stated("demo-swin") - 0.1
        assert swin.accuracy(model, 60, 2) >= stated("demo-swin", 1) - 0.1

    def test_it_loads_by_name_and_reads_as_its_training_did(self) -> None:
        import swin
        from whyformer.demo.scenes import draw_scene

        why = whyformer.load("demo-swin")
        image = draw_scene(5, 2).image
        given = swin.make_processor()([image], return_tensors="pt")["pixel_values"]
        assert torch.allclose(why.normalise(why.read(image)), given, atol=1e-5)
        assert why.kind == EMBEDDED["demo-swin"].kind == "image"
        assert list(why.labels) == [str(digit) for digit in range(10)]

    def test_its_windows_are_followed_from_stage_to_stage(self) -> None:
        """A map at the patches of the input, and another one for another digit."""
        from whyformer.demo.scenes import draw_scene

        scene = draw_scene(5, 2)
        recorded = whyformer.load("demo-swin").record(scene.image)
        first, second = (recorded.explain(str(label)) for label in scene.labels)
        assert first.tokens.to_map(first.relevance).shape == (1, 16, 16)
        assert not torch.allclose(first.relevance, second.relevance)
        assert first.notes == ()

    @pytest.mark.slow
    def test_a_tiny_one_learns(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import pool
        import swin

        monkeypatch.setattr(pool, "KEPT", tmp_path)
        scenes = pool.make_pool(16, 2, patch=swin.TOKEN)
        model = swin.make_model(width=24, depths=(1, 1, 1))
        assert falls(swin.train(model, scenes, 20, 8, 1e-3, 0), 5)


def test_a_pool_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pool

    monkeypatch.setattr(pool, "KEPT", tmp_path)
    first = pool.make_pool(3, 2)
    monkeypatch.setattr(pool, "draw_scene", None)
    again = pool.make_pool(3, 2)
    assert torch.equal(first.pixels, again.pixels)
    assert again.pixels.shape == (3, 3, 96, 96)
    for labels, patches in zip(again.labels, again.patches, strict=True):
        assert set(patches.tolist()) == {*labels.tolist(), pool.NONE}


def test_each_scene_comes_once_before_any_comes_again(tmp_path: Path) -> None:
    import pool

    scenes = pool.Pool(*[torch.zeros(6, 1)] * 4)
    drawn = [places[0].tolist() for places in pool.mixed([scenes], 6, 2, 0)]
    for start in (0, 3):
        assert sorted(i for places in drawn[start : start + 3] for i in places) == list(range(6))
