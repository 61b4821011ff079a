"""Shifted grids: a finer map, by the definition, and where they cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import whyformer
from whyformer.demo.scenes import draw_scene
from whyformer.errors import InputError
from whyformer.methods.shifted import inside, moved
from whyformer.render.sheets import make_sheet
from zoo import CASES as ALL
from zoo import quick

CASES = {case.name: case for case in ALL}


def test_the_mean_of_moved_copies() -> None:
    """Copies, explanations, and the way back, written a second time."""
    model, inputs = CASES["ViT"].make()
    explainer, image = whyformer.Explainer(model.double()), inputs[:1].double()
    found = explainer(image, target=1, method="witness", shifts=2)
    plain = explainer(image, target=1, method="witness")
    height, width = plain.tokens.size
    patch = height // plain.grid[0]
    step = patch // 4
    total, count = torch.zeros(height, width).double(), torch.zeros(height, width)
    for down in (-step, step):
        for over in (-step, step):
            copy = torch.empty_like(image)
            for y in range(height):
                for x in range(width):
                    source = min(max(y - down, 0), height - 1), min(max(x - over, 0), width - 1)
                    copy[0, :, y, x] = image[0, :, source[0], source[1]]
            answer = explainer(copy, target=1, method="witness")
            patches = answer.tokens.to_map(answer.relevance)[0] / patch**2
            for y in range(height):
                for x in range(width):
                    there = (y + down, x + over)
                    if 0 <= there[0] < height and 0 <= there[1] < width:
                        total[y, x] += patches[there[0] // patch, there[1] // patch]
                        count[y, x] += 1
    assert torch.allclose(found.input_relevance[0], total / count, atol=1e-12)
    sums = found.input_relevance[0].unflatten(0, (-1, patch)).unflatten(2, (-1, patch)).sum((1, 3))
    assert torch.allclose(found.tokens.to_map(found.relevance)[0], sums, atol=1e-12)


def test_the_finer_map_is_what_is_shown(tmp_path: Path) -> None:
    """Cells of half a step each: every picture, file and array has them, with the same sums."""
    why, scene = whyformer.load("demo-vision"), draw_scene(3, 2)
    asked = {"target": [[*scene.labels]], "method": "witness"}
    fine, plain = why(scene.image, **asked, shifts=2, progress=False), why(scene.image, **asked)
    assert fine.parts[0].map.shape == (1, 2, 48, 48)
    assert torch.allclose(fine.parts[0].map.sum((-1, -2)), fine.relevance[..., 1:].sum(-1))
    blocks = fine.input_relevance.unflatten(-2, (48, 2)).unflatten(-1, (48, 2))
    assert torch.allclose(blocks, blocks[..., :1, :, :1].expand_as(blocks), atol=1e-9)
    mean = fine.image_map().mean((-1, -2)) / plain.image_map().mean((-1, -2))
    assert torch.allclose(mean, torch.ones(2), atol=0.5)
    drawn = make_sheet(fine).views[0].scores
    assert np.allclose(drawn, fine.parts[0].map[0, 0].double().numpy())
    for ending in (".json", ".npz", ".html", ".png"):
        fine.save(tmp_path / f"why{ending}")
    assert whyformer.Explanation.load(tmp_path / "why.json").grid == (48, 48)
    beside = make_sheet([fine, why(scene.image, target=[[*scene.labels]], method="fullgrad")])
    assert {view.scores.shape for view in beside.views} == {(12, 12)}
    assert "maps of shifted grids are shown by the patches here, as the others" in beside.notes


def test_every_copy_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    model, inputs = CASES["ViT"].make()
    whyformer.Explainer(model)(inputs, target=1, method="witness", shifts=2)
    assert "shifted grids" in (shown := capsys.readouterr().err)
    assert "4/4" in shown


def test_a_patch_has_no_more_shifts_than_pixels() -> None:
    model, inputs = CASES["ViT"].make()
    explainer = whyformer.Explainer(model)
    with pytest.raises(InputError, match="shifts is 9; a patch has 8 x 8 pixels"):
        explainer(inputs, target=1, method="witness", shifts=9)
    with pytest.raises(InputError, match=r"shifts is 1\.5; expected a whole number of at least 1"):
        explainer(inputs, target=1, method="witness", shifts=1.5)


def test_patches_have_to_fill_the_image() -> None:
    """What lies behind the last whole patch is not read, and would move the grids apart."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    config = transformers.ViTConfig(
        **sizes, num_attention_heads=2, image_size=40, patch_size=16, num_labels=2
    )
    model = transformers.ViTForImageClassification(config).eval()
    explainer = whyformer.Explainer(model)
    told = "patches cover 32 x 32 of the image's 40 x 40 pixels: the rest is not read"
    for method in ("occlusion", "generic_attention", "gradient_x_input"):
        notes = explainer(torch.randn(2, 3, 40, 40), 1, method, **quick(method)).notes
        assert [note for note in notes if note.startswith(told)]
    other, inputs = CASES["ViT"].make()
    assert not whyformer.Explainer(other)(inputs, 1, "occlusion", progress=False).notes
    with pytest.raises(InputError, match="2 x 2 patches do not fill an image of 40 x 40"):
        whyformer.Explainer(model)(torch.randn(1, 3, 40, 40), 1, "witness", shifts=2)


def test_moves_and_their_way_back() -> None:
    line = torch.arange(8.0).view(1, 1, 1, 8)
    for step in (-3, 0, 2):
        there, back = inside(step, 8)
        assert torch.equal(moved(line, (0, step))[..., there], line[..., back])


def test_texts_are_not_moved() -> None:
    model, inputs = CASES["BERT"].make()
    with pytest.raises(InputError, match="leave shifts out"):
        whyformer.Explainer(model)(inputs, target=0, method="witness:shifts=2")


def test_fewer_than_one_grid_cannot_be() -> None:
    model, inputs = CASES["ViT"].make()
    with pytest.raises(InputError, match="at least 1"):
        whyformer.Explainer(model)(inputs, target=0, method="witness", shifts=0)
