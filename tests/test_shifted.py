"""Shifted grids: a finer map, by the definition, and where they cannot be."""

from __future__ import annotations

import pytest
import torch

import whyformer
from whyformer.errors import InputError
from whyformer.methods.shifted import inside, moved
from zoo import CASES as ALL

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
