"""The grid pointing game: of four photos in one image, which gets the relevance when asked?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whyformer.evaluation.tasks.metrics import is_flat
from whyformer.evaluation.tasks.pictures import Answers, ImageTask, Picture
from whyformer.evaluation.tasks.task import Measure, Record

TITLE = (
    "share of the positive relevance in the asked class's own cell of four, and how often that "
    "cell is first; chance is 25 %"
)


class Grid(ImageTask):
    """Four photos of four classes in one image: ask about each, and see which cell answers.

    After the grid pointing game of Böhle et al. (2021). A class-agnostic method gives one map for
    all four, so its figures are exactly chance.
    """

    name = "grid"

    def measure_one(self, picture: Picture, answers: Answers, method: str) -> Record:
        cells = picture.sample.masks
        maps = answers.maps(method, list(cells), picture.size)
        positive = [np.maximum(maps[asked], 0) for asked in cells]
        sums = [[float(heat[cell].sum()) for cell in cells.values()] for heat in positive]
        return {"cells": sums, "flat": any(is_flat(heat) for heat in positive)}

    def measures(self) -> list[Measure]:
        return [
            Measure(("own_cell",), lambda r: [own_share(r["cells"])], table=TITLE),
            Measure(("own_cell_first",), lambda r: [own_first(r["cells"])], table=TITLE),
        ]


def own_share(sums: Sequence[Sequence[float]]) -> float:
    """The mean share of the asked cell; row and column i belong to the same class.

    A map without any positive relevance has a share of 0.
    """
    found = np.asarray(sums, float)
    total = found.sum(1)
    return float(
        np.divide(found.diagonal(), total, out=np.zeros(len(total)), where=total > 0).mean()
    )


def own_first(sums: Sequence[Sequence[float]]) -> float:
    """How often the asked cell has the largest sum; of k cells with the same, one k-th."""
    found = np.asarray(sums, float)
    largest = found == found.max(1, keepdims=True)
    return float((largest.diagonal() / largest.sum(1)).mean())
