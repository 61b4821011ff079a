"""An image and a text that one model reads together: ViLT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import whyformer
from command_line import Run
from small_towers import save_vilt
from whyformer.errors import InputError, TargetError
from whyformer.render.sheets import make_sheet

QUESTION = "is the film witty"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vilt(tmp_path_factory.mktemp("both") / "vilt")


def image() -> Image.Image:
    noise = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    return Image.fromarray(noise)


def test_both_parts_of_a_question_on_one_scale(folder: Path) -> None:
    why = whyformer.load(folder)
    found = why(image(), target="a film", text=QUESTION, method="fullgrad")
    model = transformers.ViltForQuestionAnswering.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    prepare = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    prepared = prepare(image(), return_tensors="pt")
    with torch.no_grad():
        expected = model(**tokenizer(QUESTION, return_tensors="pt"), **prepared).logits
    torch.testing.assert_close(found.logits, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.probabilities, expected.sigmoid(), atol=1e-5, rtol=1e-4)
    sheet = make_sheet(found)
    assert {part.part for part in sheet.parts} == {"image", "text"}
    assert len({part.views[0].top for part in sheet.parts}) == 1
    by_name = {part.part: part for part in sheet.parts}
    height, width = prepared["pixel_values"].shape[-2:]
    assert by_name["image"].views[0].scores.shape == (height // 8, width // 8)
    assert [word.text for word in by_name["text"].words] == QUESTION.split()
    assert all(part.views[0].scores.any() for part in sheet.parts)
    assert sheet.asked[0].label == "a film"


@pytest.mark.parametrize("method", ["transformer_attribution", "rollout", "witness", "lrp"])
def test_methods_tell_of_both(folder: Path, method: str) -> None:
    found = whyformer.load(folder)(image(), text=QUESTION, method=method)
    assert all(bool(part.relevance.any()) for part in found.parts)


def test_how_well_they_fit(tmp_path: Path) -> None:
    why = whyformer.load(save_vilt(tmp_path / "fit", "ViltForImageAndTextRetrieval"))
    found = why(image(), text=QUESTION, method="fullgrad")
    assert found.labels == ["fits"]
    assert found.probabilities is None
    assert bool(found.relevance.any())


def test_what_is_missing_or_too_much(folder: Path) -> None:
    why = whyformer.load(folder)
    with pytest.raises(TargetError, match="no text was given"):
        why(image())
    with pytest.raises(InputError, match="one image and one text at a time"):
        why(image(), text=[QUESTION, "is it warm"])
    with pytest.raises(InputError, match="more than the model's 40"):
        why(image(), text="film " * 60)
    with pytest.raises(InputError, match="a text was expected, not int"):
        why(image(), text=3)
    with pytest.raises(TargetError, match="no label 'maybe'"):
        why(image(), target="maybe", text=QUESTION)


def test_on_the_command_line(folder: Path, tmp_path: Path, run: Run) -> None:
    photo = tmp_path / "photo.png"
    image().save(photo)
    asked = ["--model", folder, "--text", QUESTION, "--target", "no"]
    code, printed, _ = run("explain", photo, *asked)
    assert code == 0
    assert "witty" in printed
    assert "why no?" in printed
