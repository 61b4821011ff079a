"""Perturbation: how long a model stays right while pixels are removed by their relevance."""

from __future__ import annotations

from functools import cached_property, partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.evaluation.data.samples import ImageSample
from whyformer.evaluation.tasks.metrics import (
    area_under_curve,
    is_flat,
    orders_for,
    removal_ranks,
    tied_share,
)
from whyformer.evaluation.tasks.pictures import Answers, ImageTask, Picture, logits_of
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.methods import get_method
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline

#: the shares of an image's pixels that are removed
SHARES = tuple(step / 10 for step in range(1, 10))
DIRECTIONS = ("positive", "negative")
CLASSES = ("predicted", "target")
AUC = "accuracy while pixels are removed: area under the curve, 0 to 90 %"
DELETION = (
    "the explained class's probability on a black canvas, in steps of 10 %: area under the curve"
)


class Perturbation(ImageTask):
    """Remove pixels in the order of their relevance and see how long the model is right.

    Black before normalisation, in steps of a tenth; top-1 accuracy against the ground truth. The
    same forwards give deletion and insertion: the explained class's probability while the most
    relevant pixels go, and while the least relevant come last. Pixels of equal relevance go in a
    random order; where these are many, several orders are averaged.
    """

    name = "perturbation"
    stretched = False

    def prepare(self, why: Pipeline, sample: ImageSample) -> Picture:
        if sample.label is None:
            raise InputError("the sample has no label, which perturbation needs")
        return super().prepare(why, sample)

    def measure_one(self, picture: Picture, answers: Answers, method: str) -> Record:
        label, pixels = answers.checked(picture.sample.label), picture.pixels
        predicted, black = answers.predicted, self._on_black(answers.why, pixels)
        whole = torch.from_numpy(answers.logits).softmax(-1)
        asked = dict(zip(CLASSES, (predicted, label), strict=True))
        if not get_method(method).class_specific:
            del asked["target"]
        maps = answers.maps(method, list(asked.values()), picture.size)
        tied = {target: tied_pixels(heat) for target, heat in maps.items()}
        after = {
            target: [perturb(answers.why, pixels, heat, i) for i in orders_for(tied[target])]
            for target, heat in maps.items()
        }
        record: Record = {
            "flat": any(is_flat(heat) for heat in maps.values()),
            "tied": round(max(tied.values()), 6),
        }
        for which, target in asked.items():
            for direction in DIRECTIONS:
                logits = torch.stack([found[direction] for found in after[target]])
                left = logits.softmax(-1)[..., target].mean(0)
                right = (logits.argmax(-1) == label).double().mean(0)
                shares = [whole[target], *left, black[target]]
                record[f"{direction}_{which}"] = {
                    "right": [int(predicted == label), *right.tolist()],
                    "probability": [round(float(share), 6) for share in shares],
                }
        return record

    @cached_property
    def _black(self) -> WeakKeyDictionary[nn.Module, dict[torch.Size, Tensor]]:
        return WeakKeyDictionary()

    def _on_black(self, why: ImagePipeline, pixels: Tensor) -> Tensor:
        """Every class's probability on a black canvas, the same for all pictures of a size."""
        known = self._black.setdefault(why.model, {})
        if pixels.shape not in known:
            known[pixels.shape] = logits_of(why, torch.zeros_like(pixels))[0].softmax(-1)
        return known[pixels.shape]

    def measures(self) -> list[Measure]:
        """Areas under the curve: from the whole image, as the figures were made, and from 10 %."""
        found = []
        for which in CLASSES:
            for direction in DIRECTIONS:
                setting = f"{direction}_{which}"
                less = direction == "positive"
                found += [
                    Measure(
                        (setting, "auc"),
                        partial(_area, setting),
                        table=AUC,
                        column=setting,
                        less_is_better=less,
                    ),
                    Measure((setting, "auc_10_90"), partial(_area, setting, start=1)),
                    Measure(
                        (setting, "deletion" if less else "insertion"),
                        partial(_probability_area, setting),
                        table=DELETION,
                        column=f"{'deletion' if less else 'insertion'}_{which}",
                        less_is_better=less,
                    ),
                ]
                found += [
                    Measure((setting, "curve", f"{share:.1f}"), partial(_right, setting, step))
                    for step, share in enumerate((0.0, *SHARES))
                ]
        return found


def _area(setting: str, record: Record, start: int = 0) -> list[float] | None:
    if setting not in record:
        return None
    return [area_under_curve((0.0, *SHARES)[start:], record[setting]["right"][start:])]


def _probability_area(setting: str, record: Record) -> list[float] | None:
    if setting not in record:
        return None
    return [area_under_curve((0.0, *SHARES, 1.0), record[setting]["probability"])]


def _right(setting: str, step: int, record: Record) -> list[float] | None:
    return [record[setting]["right"][step]] if setting in record else None


def tied_pixels(heat: np.ndarray) -> float:
    return tied_share(heat, [int(heat.size * share) for share in SHARES], both_ends=True)


def perturb(
    why: ImagePipeline, pixels: Tensor, heat: np.ndarray, order: int = 0
) -> dict[str, Tensor]:
    """The logits after each step, for both directions, in one batch."""
    gone = torch.tensor([int(heat.size * share) for share in SHARES]).view(-1, 1, 1)
    ranks = [removal_ranks(heat, direction == "positive", order) for direction in DIRECTIONS]
    kept = [torch.from_numpy(rank) >= gone for rank in ranks]
    logits = logits_of(why, pixels * torch.cat(kept).unsqueeze(1))
    return dict(zip(DIRECTIONS, logits.split(len(SHARES)), strict=True))
