"""SaCo: do pixels with more salience change the prediction more? (Wu et al. 2024)"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whyformer.evaluation.tasks.metrics import (
    is_flat,
    orders_for,
    removal_ranks,
    salience_agreement,
    tied_share,
)
from whyformer.evaluation.tasks.pictures import Answers, ImageTask, Picture, logits_of
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.models.images import ImagePipeline

#: groups of as many pixels each
GROUPS = 10
TITLE = (
    f"salience-guided faithfulness of {GROUPS} groups of pixels, in percent: from -100 (the less "
    "salient matter more) to 100"
)


class Saco(ImageTask):
    """Replace each group of pixels alone by the picture's mean, and compare every two groups.

    The groups are cut from the pixels in the order of their relevance for the predicted class. A
    pair agrees where the more salient group's absence costs more probability; it counts by the
    difference of the two saliences.
    """

    name = "saco"
    stretched = False

    def measure_one(self, picture: Picture, answers: Answers, method: str) -> Record:
        asked = answers.predicted
        whole = float(torch.from_numpy(answers.logits).softmax(-1)[asked])
        heat = answers.maps(method, [asked], picture.size)[asked]
        tied = tied_share(heat, [heat.size * i // GROUPS for i in range(1, GROUPS)])
        found = []
        for order in orders_for(tied):
            groups = salience_groups(heat, order)
            left = without_each(answers.why, picture.pixels, groups).softmax(-1)[:, asked]
            salience = [float(heat[groups == i].sum()) for i in range(GROUPS)]
            found.append(salience_agreement(salience, (whole - left).tolist()))
        agreement = round(float(np.mean(found)), 6)
        return {"saco": agreement, "flat": is_flat(heat), "tied": round(tied, 6)}

    def measures(self) -> list[Measure]:
        return [Measure(("saco",), lambda r: [r["saco"]], table=TITLE)]


def salience_groups(heat: np.ndarray, order: int) -> np.ndarray:
    """The number of each pixel's group: 0 for the most salient tenth."""
    return removal_ranks(heat, True, order) * GROUPS // heat.size


def without_each(why: ImagePipeline, pixels: Tensor, groups: np.ndarray) -> Tensor:
    """The logits with each group alone replaced by the mean of each channel."""
    gone = torch.from_numpy(groups) == torch.arange(GROUPS).view(-1, 1, 1)
    return logits_of(why, torch.where(gone.unsqueeze(1), pixels.mean((-2, -1), True), pixels))
