"""Models and processors as transformers itself writes them: every family loads and is explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import whyformer
from command_line import Run
from small_families import FAMILIES, save_family
from small_sounds import RATE, beeps
from small_towers import save_align, save_clip, save_siglip, save_vilt
from small_writers import save_whisper
from stand_ins import photo
from whyformer.render.sheets import make_sheet

EDGE, SQUARE = {"shortest_edge": 32}, {"height": 32, "width": 32}
#: what reads an image beside texts, or a sound: how it is saved, its processor, and a question
PROCESSORS: dict[str, tuple[Callable[[Path], Path], Callable[[Any], Any], Any, dict[str, Any]]] = {
    "clip": (
        save_clip,
        lambda tokenizer: transformers.CLIPProcessor(
            transformers.CLIPImageProcessorPil(size=EDGE, crop_size=SQUARE), tokenizer
        ),
        photo(0),
        {"text": ["a photo of a cat", "a cup"]},
    ),
    "siglip": (
        save_siglip,
        lambda tokenizer: transformers.SiglipProcessor(
            transformers.SiglipImageProcessorPil(size=SQUARE), tokenizer
        ),
        photo(0),
        {"text": ["a photo of a cat", "a cup"]},
    ),
    "align": (
        save_align,
        lambda tokenizer: transformers.AlignProcessor(
            transformers.EfficientNetImageProcessorPil(size=SQUARE), tokenizer
        ),
        photo(0),
        {"text": ["a warm film"], "method": "fullgrad"},
    ),
    "vilt": (
        save_vilt,
        lambda tokenizer: transformers.ViltProcessor(
            transformers.ViltImageProcessorPil(size=EDGE, size_divisor=8), tokenizer
        ),
        photo(0),
        {"text": "is the film witty"},
    ),
    "whisper": (
        save_whisper,
        lambda tokenizer: transformers.WhisperProcessor(
            transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=2), tokenizer
        ),
        (beeps(1.0), RATE),
        {},
    ),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_processor_of_several_parts_in_one_file(name: str, tmp_path: Path) -> None:
    save, processor, given, question = PROCESSORS[name]
    folder = save(tmp_path / name)
    before = whyformer.load(folder)(given, **question)
    (folder / "preprocessor_config.json").unlink()
    processor(transformers.AutoTokenizer.from_pretrained(folder)).save_pretrained(folder)
    assert (folder / "processor_config.json").is_file()
    assert not (folder / "preprocessor_config.json").exists()
    found = whyformer.load(folder)(given, **question)
    assert all(bool(part.relevance.any()) for part in found.parts)
    assert [part.name for part in found.parts] == [part.name for part in before.parts]


@pytest.mark.parametrize("method", [None, "witness", "fullgrad"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_drawn(name: str, method: str | None, tmp_path: Path) -> None:
    folder = save_family(tmp_path / name, name)
    why = whyformer.load(folder)
    beside = {"similar_to": photo(1)} if name == "dinov2" else {}
    found = why(photo(0), method=method, **beside)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    with torch.no_grad():
        output = why.model(**processor(photo(0), return_tensors="pt"))
    if hasattr(output, "logits") and output.logits.ndim == 2:
        torch.testing.assert_close(found.logits, output.logits)
    assert found.grid is not None
    sheet = make_sheet(found)
    assert sheet.views[0].scores.any()
    assert sheet.views[0].scores.shape == found.grid
    assert found.save(tmp_path / "why.png").stat().st_size > 1000


@pytest.mark.parametrize("name", ["swin", "hiera", "segmenter", "detr", "rt-detr"])
def test_on_the_command_line(name: str, tmp_path: Path, run: Run) -> None:
    folder = save_family(tmp_path / name, name)
    photo(0).save(tmp_path / "photo.png")
    for ending in ("png", "html", "json"):
        out = tmp_path / f"why.{ending}"
        code, printed, said = run(
            "explain", tmp_path / "photo.png", "--model", folder, "--out", out
        )
        assert code == 0, said
        assert out.stat().st_size > 1000
        assert str(out) in printed
