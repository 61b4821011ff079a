"""Models that read several inputs: one sheet for each, on one scale."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import whyformer
from whyformer.explanation import Explanation, Sound
from whyformer.render.document import document
from whyformer.render.saving import save_sheet
from whyformer.render.sheets import make_sheet
from whyformer.render.terminal import to_terminal
from whyformer.targets import contrast
from whyformer.words import Piece


class Both(torch.nn.Module):
    """An image and a text that meet in one attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, 8, 4, 4)
        self.words = torch.nn.Embedding(10, 8)
        self.block = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, pixel_values: torch.Tensor, input_ids: torch.Tensor) -> torch.Tensor:
        image = self.patches(pixel_values).flatten(2).mT
        return self.head(self.block(torch.cat([image, self.words(input_ids)], 1)).mean(1))


@pytest.fixture
def explanation() -> Explanation:
    torch.manual_seed(0)
    explainer = whyformer.Explainer(Both().eval(), labels=["red", "green", "blue"])
    inputs = {"pixel_values": torch.rand(1, 3, 8, 12), "input_ids": torch.tensor([[1, 2, 3]])}
    found = explainer(inputs, target="green", method="fullgrad")
    pieces = [[Piece("why", "", 0), Piece("this", " ", 1), Piece("colour", " ", 2)]]
    return found.showing("input_ids", pieces=pieces, title="text").showing(
        "pixel_values", title="image"
    )


def test_every_input_has_a_sheet_on_one_scale(explanation: Explanation) -> None:
    sheet = make_sheet(explanation)
    kinds = {part.part: part.kind for part in sheet.parts}
    assert kinds == {"image": "image", "text": "text"}
    scores = [part.views[0].scores for part in sheet.parts]
    strongest = max(float(np.abs(values).max()) for values in scores)
    spans = [part.views[0].span for part in sheet.parts]  # fullgrad is signed
    assert spans == [(-strongest, strongest)] * 2
    assert {tuple(values.shape) for values in scores} == {(2, 3), (3,)}


def test_the_other_input_is_in_every_file(explanation: Explanation, tmp_path: Path) -> None:
    sheet = make_sheet(explanation)
    other = sheet.others[0]
    assert document(sheet)["others"][0]["part"] == other.part
    for ending in ("png", "html", "svg", "json", "npz", "tex"):
        save_sheet(sheet, tmp_path / f"why.{ending}")
    arrays = np.load(tmp_path / "why.npz")
    assert np.array_equal(arrays[f"{other.part}.scores"][0], other.views[0].scores)
    loaded = json.loads((tmp_path / "why.json").read_text())
    assert loaded["others"][0]["views"][0]["scores"] == other.views[0].scores.ravel().tolist()
    alone = save_sheet(replace(sheet, others=()), tmp_path / "alone.png")
    heights = [Image.open(path).height for path in (alone, tmp_path / "why.png")]
    assert heights[1] > heights[0] + 50
    shown = to_terminal(sheet, colour=False)
    assert "colour" in shown
    assert "image: why green?" in shown


def test_an_input_that_cannot_be_drawn_is_named(explanation: Explanation) -> None:
    bare = explanation.showing("input_ids", pieces=None)
    assert make_sheet(bare).notes[-1] == "the input input_ids is not drawn"


def test_a_sound_is_played_in_the_page(explanation: Explanation) -> None:
    heard = explanation.showing("pixel_values", sound=Sound(torch.zeros(1, 100), 16000))
    sheet = make_sheet(heard)
    of_image = next(
        p
        for p in [document(sheet, for_page=True), *document(sheet, for_page=True)["others"]]
        if "image" in p
    )
    assert of_image["sound"].startswith("data:audio/wav;base64,UklGR")


def test_a_contrast_is_called_by_its_words() -> None:
    explainer = whyformer.Explainer(Both().eval(), labels=["red", "green", "blue"])
    inputs = {"pixel_values": torch.rand(1, 3, 8, 12), "input_ids": torch.tensor([[1, 2, 3]])}
    found = explainer(inputs, target=contrast("green", "red"), method="fullgrad")
    assert found.asked == ("green rather than red",)
    sheet = make_sheet(found)
    assert [score.label for score in sheet.asked] == ["green rather than red"]


def test_the_row_of_the_output_that_was_asked_about() -> None:
    torch.manual_seed(0)
    logits = torch.rand(1, 4, 3)
    body = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    model = torch.nn.Sequential(torch.nn.Embedding(5, 8), body, torch.nn.Linear(8, 3)).eval()
    found = whyformer.Explainer(model)(torch.tensor([[1, 2, 3, 4]]), target=(2, 1))
    found = replace(found, logits=logits)
    assert torch.equal(found.logits_of(0), logits[0, 2])


def test_a_class_agnostic_method_is_asked_at_its_position() -> None:
    """Rollout looks at no class, but which row is read is asked all the same."""
    torch.manual_seed(0)
    body = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    model = torch.nn.Sequential(torch.nn.Embedding(5, 8), body, torch.nn.Linear(8, 3)).eval()
    explainer, ids = whyformer.Explainer(model), torch.tensor([[1, 2, 3, 4]])
    first, last = (explainer(ids, target=(place, 0), method="rollout") for place in (0, 3))
    assert first.target is None
    assert first.position.tolist() == [0]
    assert not torch.allclose(first.relevance, last.relevance)
    assert torch.equal(last.relevance, explainer(ids, method="rollout").relevance)
