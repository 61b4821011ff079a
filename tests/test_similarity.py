"""Models without a head: why two sentences or two images are similar, and what a unit sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import whyformer
from command_line import Run
from small_images import save_vit, write
from small_texts import save_sentences
from small_towers import save_align, save_clip, save_siglip
from whyformer.demo.captions import draw_captioned
from whyformer.errors import InputError, ModelError, TargetError
from whyformer.models.pipeline import Pipeline
from whyformer.render.sheets import make_sheet

ONE, TWO = "a warm witty film", "the acting is superb, but the plot is warm"


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("similar") / "sentences"
    return save_sentences(folder, pooling_mode_mean_tokens=True)


@pytest.fixture(scope="module")
def why(sentences: Path) -> Pipeline:
    return whyformer.load(sentences)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return save_vit(tmp_path_factory.mktemp("similar") / "vit", "ViTModel")


def image(seed: int = 0) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (48, 64, 3), np.uint8)
    return Image.fromarray(noise)


def hidden(folder: Path, text: str) -> torch.Tensor:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]


@pytest.mark.parametrize("mode", ["pooling_mode_mean_tokens", "pooling_mode_cls_token"])
def test_the_number_is_the_cosine_of_the_pooled_sentences(mode: str, tmp_path: Path) -> None:
    folder = save_sentences(tmp_path / "model", **{mode: True})
    found = whyformer.load(folder)((ONE, TWO))
    rows = [hidden(folder, text) for text in (ONE, TWO)]
    vectors = [row[0] if "cls" in mode else row.mean(0) for row in rows]
    expected = torch.cosine_similarity(vectors[0], vectors[1], dim=0)
    torch.testing.assert_close(found.logits[0, 0], expected)
    assert found.notes == ()


def test_both_sentences_are_coloured(why: Pipeline) -> None:
    found = why(ONE, similar_to=TWO, method="witness")
    first, second = found.parts
    assert [part.title for part in found.parts] == ["text", "other text"]
    assert bool(first.relevance.any())
    assert bool(second.relevance.any())
    sheet = make_sheet(found)
    assert [[word.text for word in part.words] for part in sheet.parts] == [
        ["a", "warm", "witty", "film"],
        ["the", "acting", "is", "superb", ",", "but", "the", "plot", "is", "warm"],
    ]
    assert sheet.classes[0].label == "similar"
    assert sheet.classes[0].probability is None
    assert not bool(found.part("input_ids").content[0, 0])
    assert not bool(found.part("other_input_ids").content[0, -1])


def test_the_other_way_round_gives_the_same(why: Pipeline) -> None:
    there, back = why((ONE, TWO), method="fullgrad"), why((TWO, ONE), method="fullgrad")
    torch.testing.assert_close(there.logits, back.logits)
    torch.testing.assert_close(
        there.relevance, back.part("other_input_ids").relevance, atol=1e-5, rtol=1e-4
    )


def test_two_equal_sentences_have_words_that_say_so(why: Pipeline) -> None:
    """A plain cosine has no gradient there."""
    found = why((ONE, ONE), method="gradient_x_input")
    assert float(found.logits) == pytest.approx(1)
    assert float(found.relevance.abs().max()) > 1e-3
    torch.testing.assert_close(found.relevance, found.part("other_input_ids").relevance)


def test_nothing_of_the_model_changes(why: Pipeline) -> None:
    before = {name: value.clone() for name, value in why.model.state_dict().items()}
    modes = [module.training for module in why.model.modules()]
    why((ONE, TWO))
    assert all(torch.equal(value, before[name]) for name, value in why.model.state_dict().items())
    assert [module.training for module in why.model.modules()] == modes


def test_two_images(images: Path) -> None:
    found = whyformer.load(images)(image(0), similar_to=image(1), method="witness")
    processor = transformers.AutoImageProcessor.from_pretrained(images, backend="pil")
    model = transformers.ViTModel.from_pretrained(images).eval()
    with torch.no_grad():
        rows = model(**processor([image(0), image(1)], return_tensors="pt")).last_hidden_state
    expected = torch.cosine_similarity(rows[:1, 0], rows[1:, 0])
    torch.testing.assert_close(found.logits[0], expected)
    sheet = make_sheet(found)
    assert [part.part for part in sheet.parts] == ["image", "other image"]
    assert [part.views[0].scores.shape for part in sheet.parts] == [(4, 4), (4, 4)]
    assert all(part.views[0].scores.any() for part in sheet.parts)
    assert not np.allclose(sheet.image, sheet.others[0].image)
    assert "the features are the class token's, last_hidden_state[:, 0]" in found.notes


def test_one_unit_of_the_features(images: Path) -> None:
    why = whyformer.load(images)
    found = why(image(), target=17)
    assert torch.equal(found.relevance, why(image(), target="unit 17").relevance)
    assert found.label(int(found.target[0])) == "unit 17"  # type: ignore[index]
    assert found.logits.shape == (1, 32)
    assert found.probabilities is None
    mean = whyformer.load(images, output=lambda out: out.last_hidden_state.mean(1))
    assert not torch.allclose(mean(image(), target=17).logits, found.logits)


def test_dinov2_has_a_pooling_of_its_own(tmp_path: Path) -> None:
    from zoo import VISION

    folder = save_vit(tmp_path / "dino", "ViTModel")
    config = transformers.Dinov2Config(**{**VISION, "image_size": 32, "patch_size": 8})
    model = transformers.Dinov2Model(config).eval()
    model.save_pretrained(folder)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings |= {"image_processor_type": "BitImageProcessor", "crop_size": settings["size"]}
    write(folder / "preprocessor_config.json", settings)
    found = whyformer.load(folder)(image(0), similar_to=image(1))
    assert found.notes[0] == "the features are the model's pooler_output"
    assert found.grid == (4, 4)
    assert bool(found.relevance.any())


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (ONE, {}, "no head.*similar_to=.*of its 32 units"),
        ((ONE, " "), {}, "the text is empty"),
        ((ONE, TWO, ONE), {}, "3 texts were given; give two"),
        ((ONE, "film " * 40), {}, "more than the model's 24; shorten it"),
        (ONE, {"target": 40}, "class 40 of a model with 32"),
        ([ONE], {"similar_to": TWO}, "a text was expected, not list"),
    ],
)
def test_questions_without_an_answer(why: Pipeline, given: Any, options: Any, said: str) -> None:
    with pytest.raises((InputError, TargetError), match=said):
        why(given, **options)


def test_images_that_are_not_as_many(images: Path) -> None:
    with pytest.raises(InputError, match="2 images are compared with 1"):
        whyformer.load(images)([image(0), image(1)], similar_to=image(0))


def test_layouts_that_are_not_followed(tmp_path: Path) -> None:
    folder = save_sentences(tmp_path / "model", pooling_mode_max_tokens=True)
    with pytest.raises(ModelError, match="pools its tokens by max_tokens"):
        whyformer.load(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.Dense"
    write(folder / "modules.json", modules)
    with pytest.raises(ModelError, match="a Dense module behind its Transformer"):
        whyformer.load(folder)
    (folder / "modules.json").unlink()
    assert "their mean was taken" in whyformer.load(folder)((ONE, TWO)).notes[0]


def test_on_the_command_line(
    sentences: Path, images: Path, run: Run, tmp_path: Path, why: Pipeline
) -> None:
    expected = why((ONE, TWO))
    for option in ("--pair", "--similar-to"):
        code, printed, _ = run("explain", ONE, option, TWO, "--model", sentences, "--json")
        assert code == 0
        found = json.loads(printed)
        assert found["classes"][0]["logit"] == pytest.approx(float(expected.logits))
        assert found["others"][0]["part"] == "other text"
    for i in range(2):
        image(i).save(tmp_path / f"{i}.png")
    page = tmp_path / "why.html"
    files = tmp_path / "0.png", "--similar-to", tmp_path / "1.png"
    assert run("explain", *files, "--model", images, "--out", page)[0] == 0
    assert "other image" in page.read_text()
    wrong = run("explain", tmp_path / "0.png", "--similar-to", ONE, "--model", images)
    assert "--similar-to is of kind 'text'" in wrong[2]
    digits = run("explain", *files, "--model", "demo-vision")
    assert "--similar-to does not go with demo-vision" in digits[2]


CLAIMS = ("a photo of a cat", "a cup of coffee")


@pytest.mark.parametrize("save", [save_clip, save_siglip, save_align])
def test_either_side_of_two_towers(save: Any, tmp_path: Path) -> None:
    """The cosines of transformers' own features, of two images and of two texts."""
    folder = save(tmp_path / "towers")
    texts = (ONE, "the acting is superb") if save is save_align else CLAIMS
    why = whyformer.load(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    room = {"padding": "max_length", "max_length": 16} if save is save_siglip else {"padding": True}
    with torch.no_grad():
        seen = model.get_image_features(**processor([image(0), image(1)], return_tensors="pt"))
        read = model.get_text_features(**tokenizer(list(texts), return_tensors="pt", **room))
    pictures = why(image(0), similar_to=image(1), method="fullgrad")
    sentences = why.side("text")(texts, method="fullgrad")  # type: ignore[attr-defined]
    for found, features in ((pictures, seen.pooler_output), (sentences, read.pooler_output)):
        torch.testing.assert_close(
            found.logits[0], torch.cosine_similarity(features[:1], features[1:])
        )
        assert all(bool(part.relevance.any()) for part in found.parts)
    assert [part.title for part in pictures.parts] == ["image", "other image"]
    assert [part.title for part in sentences.parts] == ["text", "other text"]
    assert pictures.notes[0].startswith("the features are the image tower's")


@pytest.mark.parametrize("method", ["transformer_attribution", "witness", "raw_attention"])
def test_a_tower_without_attention(method: str, tmp_path: Path) -> None:
    """Two images: refused, and the model is blamed for no cut; a text beside it is told of."""
    why = whyformer.load(save_align(tmp_path / "align"))
    with pytest.raises(ModelError, match=r"no self-attention.*gradient_x_input needs none") as said:
        why(image(0), similar_to=image(1), method=method)
    assert "cuts the graph" not in str(said.value)
    named = why(image(0), similar_to=image(1), method="gradient_x_input")
    assert all(bool(part.relevance.any()) for part in named.parts)
    assert not any("cuts the graph" in note for note in named.notes)


def test_an_image_that_no_attention_reads(tmp_path: Path) -> None:
    why = whyformer.load(save_align(tmp_path / "align"))
    found = why(image(0), text=[ONE, "the acting is superb"], method="rollout")
    seen, read = found.parts
    assert not seen.relevance.any()
    assert bool(read.relevance.any())
    (note,) = found.notes
    assert note.startswith("no attention reads pixel_values, so rollout tells nothing of it")
    assert "gradient_x_input" in note
    again = why(image(0), text=[ONE, "the acting is superb"], method="gradient_x_input")
    assert all(bool(part.relevance.any()) for part in again.parts)
    assert again.notes == ()


def test_two_images_of_clip_the_other_way_round(tmp_path: Path) -> None:
    why = whyformer.load(save_clip(tmp_path / "clip"))
    there = why(image(0), similar_to=image(1), method="witness")
    back = why(image(1), similar_to=image(0), method="witness")
    assert there.grid == (4, 4)
    torch.testing.assert_close(
        there.relevance, back.part("other_pixel_values").relevance, atol=1e-5, rtol=1e-4
    )
    with pytest.raises(InputError, match="text or similar_to, not both"):
        why(image(0), similar_to=image(1), text="a cat")
    with pytest.raises(InputError, match="a side for image and one for text, not for 'sound'"):
        why.side("sound")  # type: ignore[attr-defined]


def test_towers_compare_images_and_texts_on_the_command_line(tmp_path: Path, run: Run) -> None:
    folder = save_clip(tmp_path / "clip")
    for seed in (0, 1):
        image(seed).save(tmp_path / f"{seed}.png")
    first, second = tmp_path / "0.png", tmp_path / "1.png"
    asked = ["--model", folder, "--method", "fullgrad", "--json"]
    why = whyformer.load(folder)
    _, printed, _ = run("explain", first, "--similar-to", second, *asked)
    expected = why(first, similar_to=second, method="fullgrad")
    told = json.loads(printed)
    for shown, part in zip([told, *told["others"]], expected.parts, strict=True):
        assert shown["views"][0]["scores"] == pytest.approx(part.relevance[0, 1:].tolist())
    _, printed, _ = run("explain", CLAIMS[0], "--similar-to", CLAIMS[1], *asked)
    told = json.loads(printed)
    assert [word["text"] for word in told["others"][0]["views"][0]["words"]] == CLAIMS[1].split()
    _, _, said = run("explain", first, "--similar-to", second, "--text", "a cat", *asked)
    assert "give text or similar_to, not both" in said
    _, _, said = run("explain", first, "--similar-to", "a cat", *asked)
    assert "--similar-to is of kind 'text'" in said
    code, printed, _ = run("explain", first, "--similar-to", second)
    assert code == 0
    assert "no --model was given: demo-clip" in printed


def test_scenes_that_share_a_digit_are_similar_by_that_digit() -> None:
    """demo-clip learnt no similarity of images, yet both maps find the digit that they share."""
    why = whyformer.load("demo-clip")
    hits = []
    for number, (shared, *others) in enumerate([(3, 7, 1), (0, 4, 6), (8, 2, 5), (9, 0, 3)]):
        labels = [(shared, others[0]), (others[1], shared)]
        scenes = [draw_captioned([9, number, i], labels=two).scene for i, two in enumerate(labels)]
        found = why(scenes[0].image, similar_to=scenes[1].image)
        for part, scene in zip(found.parts, scenes, strict=True):
            heat = part.tokens.to_map(part.relevance[0]).clamp(min=0)[None, None]
            heat = torch.nn.functional.interpolate(heat, scene.masks.shape[-2:], mode="bilinear")
            own, other = (heat[0, 0][mask].sum() for mask in torch.from_numpy(scene.masks))
            hits.append(bool(own > other) == (scene.labels[0] == shared))
    assert sum(hits) >= 7
