"""Pointing: whose pixels get the relevance when one of several objects is asked about?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from whyformer.errors import InputError
from whyformer.evaluation.data.samples import ImageSample
from whyformer.evaluation.tasks.known import WRONG
from whyformer.evaluation.tasks.pictures import Answers, ImageTask, Picture, logits_of
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline


class Pointing(ImageTask):
    """Ask about each of several objects: whose pixels get more of the relevance?"""

    name = "pointing"
    model: ClassVar[str] = "demo-swin"
    unknown: ClassVar[str] = WRONG

    def knows(self, why: Pipeline, sample: ImageSample) -> bool:
        """Whether the objects are the model's surest classes."""
        assert isinstance(why, ImagePipeline)
        logits = logits_of(why, why.fit(sample.image))[0].numpy()
        return set(logits.argsort()[::-1][: len(sample.masks)].tolist()) == set(sample.masks)

    def prepare(self, why: Pipeline, sample: ImageSample) -> Picture:
        if len(sample.masks) < 2:
            raise InputError("the sample has fewer than two masks, which pointing needs")
        return super().prepare(why, sample)

    def measure_one(self, picture: Picture, answers: Answers, method: str) -> Record:
        masks = picture.sample.masks
        asked = [answers.checked(label) for label in masks]
        maps = answers.maps(method, asked, next(iter(masks.values())).shape)
        return {"shares": [on_each(heat, masks, asked) for asked, heat in maps.items()]}

    def measures(self) -> list[Measure]:
        return shares_measures("object")


def on_each(heat: np.ndarray, masks: Mapping[Any, np.ndarray], asked: Any) -> list[float]:
    """Shares of the positive relevance: on what is asked about, on the largest of the others."""
    heat = np.maximum(heat, 0)
    inside = {other: heat[mask].sum() for other, mask in masks.items()}
    rest = max(part for other, part in inside.items() if other != asked)
    total = float(heat.sum()) or 1.0
    return [float(inside[asked]) / total, float(rest) / total]


def shares_measures(what: str) -> list[Measure]:
    """The figures of such shares."""
    title = f"share of the relevance on the asked {what}, on another, and how often it is more"
    return [
        Measure(("inside",), lambda r: [_column(r, 0)], table=title),
        Measure(("other",), lambda r: [_column(r, 1)], table=title, less_is_better=True),
        Measure(("points",), lambda r: [_hits(r)], table=title),
    ]


def _column(record: Record, place: int) -> float:
    return float(np.mean([pair[place] for pair in record["shares"]]))


def _hits(record: Record) -> float:
    """How often the asked object has more; equal shares count half."""
    return float(np.mean([0.5 if a == b else float(a > b) for a, b in record["shares"]]))
