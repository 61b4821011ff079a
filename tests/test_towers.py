"""Two towers: which text fits an image, and which patches and words say so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import whyformer
from command_line import Run
from small_towers import LONGEST, save_align, save_clip, save_siglip
from whyformer.demo.captions import draw_captioned, with_article
from whyformer.errors import InputError, ModelError, TargetError
from whyformer.explanation import Explanation
from whyformer.models.pipeline import Pipeline
from whyformer.render.sheets import make_sheet

TEXTS = ["a photo of a cat", "a cup of coffee", "a dog asleep"]


def image(seed: int = 0) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), np.uint8)
    return Image.fromarray(noise)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_clip(tmp_path_factory.mktemp("towers") / "clip")


@pytest.fixture(scope="module")
def clip(folder: Path) -> Pipeline:
    return whyformer.load(folder)


def words(explanation: Explanation) -> list[str]:
    pieces = explanation.part("input_ids").pieces
    assert pieces is not None
    return [piece.text for piece in pieces[0] if piece.word is not None]


@pytest.mark.parametrize("save", [save_clip, save_siglip, save_align])
def test_the_logits_are_those_of_transformers(save: object, tmp_path: Path) -> None:
    folder = save(tmp_path / "model")  # type: ignore[operator]
    texts = ["a warm film", "the acting is superb"] if save is save_align else TEXTS
    why = whyformer.load(folder)
    found = why(image(), text=texts, method="fullgrad")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    padding = {"padding": "max_length", "max_length": LONGEST} if save is save_siglip else {}
    with torch.no_grad():
        expected = model(
            **tokenizer(texts, return_tensors="pt", **{"padding": True, **padding}),
            **processor(image(), return_tensors="pt"),
        ).logits_per_image
    torch.testing.assert_close(found.logits, expected)
    shares = expected.sigmoid() if save is save_siglip else expected.softmax(-1)
    torch.testing.assert_close(found.probabilities, shares)
    assert found.labels == texts
    assert bool(found.relevance.any())
    assert bool(found.part("input_ids").relevance.any())


def test_a_text_is_asked_for_by_its_words_or_its_number(clip: Pipeline) -> None:
    recorded = clip.record(image(), text=TEXTS)
    by_words, by_number = recorded.explain("a cup of coffee"), recorded.explain(1)
    assert torch.equal(by_words.relevance, by_number.relevance)
    assert words(by_words) == ["a", "cup", "of", "coffee"]
    assert by_words.grid == (4, 4)
    assert by_words.picture is not None


def test_every_target_colours_its_own_text_alone(clip: Pipeline) -> None:
    found = clip(image(), [["a cup of coffee", "a dog asleep"]], text=TEXTS, method="witness")
    assert words(found) == ["a", "cup", "of", "coffee", "a", "dog", "asleep"]
    part = found.part("input_ids")
    assert part.relevance.shape[:2] == (1, 2)
    own = part.relevance[0].abs() > 0
    coffee = torch.arange(part.relevance.shape[-1]) < 6
    assert not bool(own[0][~coffee].any())
    assert not bool(own[1][coffee].any())
    assert bool(own.any(1).all())
    sheet = make_sheet(found)
    assert [score.label for score in sheet.asked] == ["a cup of coffee", "a dog asleep"]
    assert [text.word for text in sheet.others[0].pieces or [] if text.word is not None] == [
        0, 1, 2, 3, 4, 5, 6
    ]  # fmt: skip


def test_a_contrast_shows_both_texts(clip: Pipeline) -> None:
    rather = whyformer.contrast("a photo of a cat", "a dog asleep")
    found = clip(image(), rather, text=TEXTS, method="fullgrad")
    assert found.asked == ("a photo of a cat rather than a dog asleep",)
    assert words(found) == ["a", "photo", "of", "a", "cat", "a", "dog", "asleep"]
    recorded = clip.record(image(), text=TEXTS)
    cat, dog = (recorded.explain(i, "gradient_x_input").relevance for i in (0, 2))
    both = recorded.explain(rather, "gradient_x_input").relevance
    torch.testing.assert_close(both, cat - dog)


@pytest.mark.parametrize(
    "method", ["rollout", "raw_attention", "gradcam", "partial_lrp", "witness"]
)
def test_every_tower_has_its_own_last_map(clip: Pipeline, method: str) -> None:
    """Also methods that look at no class, or at the last map alone, tell of both towers."""
    recorded = clip.record(image(), text=TEXTS)
    found = [recorded.compare(i, [method])[0] for i in range(3)]
    assert all(bool(e.part("input_ids").relevance.any()) for e in found)
    assert all(e.target is not None for e in found)
    assert any(bool(e.relevance.any()) for e in found)
    if method in ("rollout", "raw_attention"):
        assert all(torch.equal(e.relevance, found[0].relevance) for e in found)


def test_raw_attention_is_the_last_map_of_each_tower(clip: Pipeline) -> None:
    found = clip(image(), 1, text=TEXTS, method="raw_attention")
    model = transformers.CLIPModel.from_pretrained(clip.source, attn_implementation="eager")
    prepared = clip.record(image(), text=TEXTS)._recording._placed  # type: ignore[attr-defined]
    with torch.no_grad():
        seen = model(**prepared, output_attentions=True)
    patches = seen.vision_model_output.attentions[-1].mean(1)[0, 0, 1:]
    shown = found.relevance[0, found.tokens.patches]
    torch.testing.assert_close(shown / shown.sum(), patches / patches.sum())


def test_several_images_beside_the_same_texts(clip: Pipeline) -> None:
    both = clip([image(0), image(1)], 1, text=TEXTS, method="fullgrad")
    alone = clip(image(1), 1, text=TEXTS, method="fullgrad")
    torch.testing.assert_close(both.relevance[1:], alone.relevance, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        both.part("input_ids").relevance[1:], alone.part("input_ids").relevance,
        atol=1e-5, rtol=1e-4,
    )  # fmt: skip


def test_one_text_has_a_value_and_no_probability(clip: Pipeline) -> None:
    found = clip(image(), text="a cup of coffee")
    assert found.probabilities is None
    assert words(found) == ["a", "cup", "of", "coffee"]


def test_colours_of_image_and_text_have_scales_of_their_own(clip: Pipeline) -> None:
    sheet = make_sheet(clip(image(), text=TEXTS))
    assert [part.views[0].top for part in sheet.parts] == [None, None]
    assert [part.part for part in sheet.parts] == ["image", "asked text"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ([], "no text was given"),
        (" ", "the text is empty"),
        (["a cat", ""], "the text is empty"),
        (["a cat", "a cat"], "'a cat' is given twice"),
        (["coffee " * 20], f"more than the model's {LONGEST}; shorten it"),
        ([3], "a text was expected, not int"),
    ],
)
def test_texts_that_cannot_be_read(clip: Pipeline, text: object, said: str) -> None:
    with pytest.raises((InputError, TargetError), match=said):
        clip(image(), text=text)


def test_an_image_that_is_none(clip: Pipeline) -> None:
    with pytest.raises(InputError, match="no such file: a cat"):
        clip("a cat", text=TEXTS)


def test_the_tokenizer_that_a_model_brings_stands_for_a_class_that_cannot_be_had(
    tmp_path: Path,
) -> None:
    """SigLIP's own class needs sentencepiece; its tokenizer.json does not."""
    folder = save_siglip(tmp_path / "siglip")
    config = folder / "tokenizer_config.json"
    settings = json.loads(config.read_text())
    before = whyformer.load(folder)(image(), text=TEXTS).logits
    config.write_text(json.dumps({**settings, "tokenizer_class": "SiglipTokenizer"}))
    torch.testing.assert_close(whyformer.load(folder)(image(), text=TEXTS).logits, before)


def test_towers_without_a_tokenizer(tmp_path: Path) -> None:
    folder = save_clip(tmp_path / "clip")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="no tokenizer"):
        whyformer.load(folder)


def test_on_the_command_line(folder: Path, tmp_path: Path, run: Run) -> None:
    photo = tmp_path / "photo.png"
    image().save(photo)
    texts = [word for text in TEXTS for word in ("--text", text)]
    asked = ["--target", "a cup of coffee", "--model", str(folder)]
    _, printed, _ = run("explain", photo, *texts, *asked, "--json")
    found = json.loads(printed)
    expected = whyformer.load(folder)(photo, "a cup of coffee", text=TEXTS)
    assert np.allclose(
        found["views"][0]["scores"], expected.relevance[0, expected.tokens.patches].tolist()
    )
    assert [word["text"] for word in found["others"][0]["views"][0]["words"]] == [
        "a", "cup", "of", "coffee"
    ]  # fmt: skip
    page = tmp_path / "why.html"
    assert run("explain", photo, *texts, *asked, "--out", page)[0] == 0
    assert "a cup of coffee" in page.read_text()
    assert "no text was given" in run("explain", photo, "--model", folder)[2]
    asked_of_digits = run("explain", photo, *texts, "--model", "demo-vision")
    assert "--text does not go with demo-vision" in asked_of_digits[2]
    assert "reads images" in run("explain", "a cat", *texts, *asked)[2]


def test_the_map_falls_on_the_digit_that_the_text_names(run: Run, tmp_path: Path) -> None:
    """demo-clip, on scenes of digits that training never saw."""
    why = whyformer.load("demo-clip")
    hits = []
    for number in range(6):
        scene = draw_captioned([5, number]).scene
        texts = [with_article(digit) for digit in scene.labels]
        both = why(scene.image, [[0, 1]], text=texts, matrix=False)
        heats = both.image_map(scene.masks.shape[-2:])[0].clamp(min=0).numpy()
        hits += [
            heat[scene.masks[i]].sum() > heat[scene.masks[1 - i]].sum()
            for i, heat in enumerate(heats)
        ]
        part = both.part("input_ids")
        assert part.pieces is not None
        for i in range(2):
            strongest = part.pieces[0][int((part.relevance[0, i] * part.content[0]).argmax())]
            assert strongest.text in texts[i].split()
    assert np.mean(hits) > 0.8
    scene.image.save(tmp_path / "scene.png")
    given = [tmp_path / "scene.png", "--text", texts[0], "--text", "a large six"]
    code, printed, _ = run("explain", *given)
    assert code == 0
    assert "unknown to the tokenizer: large" in printed
    assert "no --model was given: demo-clip" in printed
