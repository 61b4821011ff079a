"""Boxes: how much of the relevance lies inside the box of the thing that was found?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

import numpy as np

from whyformer.demo.scenes import Scene, boxes_of, draw_tidy
from whyformer.evaluation.data.samples import Drawn, Samples
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.answers import TimedAnswers
from whyformer.evaluation.tasks.known import KnownTruth
from whyformer.evaluation.tasks.pictures import bytes_of, enlarged, map_of
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.models.detection import DetectionPipeline
from whyformer.models.pipeline import Pipeline

SCENE_SEED = 3_000_029
#: a digit is found where a box of its class overlaps its own so much
OVERLAP = 0.5

Box = Sequence[float]


class Boxes(KnownTruth):
    """Ask about the class of each digit of a scene, all of which the model must find."""

    name = "boxes"
    kind = "detection"
    needs = "a detector"
    model = "demo-detector"

    def embedded(self, count: int) -> Samples[Scene]:
        """Scenes of two digits that demo-detector never saw."""
        return Drawn("tidy scenes of 2", "tidy", count, lambda i: draw_tidy([SCENE_SEED, i], 2))

    def knows(self, why: Pipeline, sample: Scene) -> bool:
        assert isinstance(why, DetectionPipeline)
        surest: dict[str, Box] = {}
        for found in why.detections(sample.image):
            surest.setdefault(found.label, found.box)
        return all(
            str(label) in surest and overlap(box, surest[str(label)]) >= OVERLAP
            for label, box in zip(sample.labels, shares_of(sample), strict=True)
        )

    def measure(
        self, why: Pipeline, prepared: Scene, methods: Sequence[str], cache: Cache
    ) -> Iterator[tuple[str, Record]]:
        assert isinstance(why, DetectionPipeline)
        pixels = why.normalise(why.read(prepared.image)).to(next(why.model.parameters()).device)
        given = bytes_of(prepared.image)
        answers = TimedAnswers(why, self.preset, cache, given, lambda: why.model(pixels))
        record = partial(why.record, prepared.image)
        height, width = prepared.masks.shape[1:]
        for method in methods:
            inside, areas = [], []
            for label, box in zip(prepared.labels, boxes_of(prepared), strict=True):
                heat = enlarged(answers.ask(record, method, str(label), map_of), (height, width))
                inside.append(share_inside(heat, box))
                areas.append(share_inside(np.ones((height, width)), box))
            yield method, {"inside": inside, "areas": areas, **answers.clock.cost(method)}

    def measures(self) -> list[Measure]:
        title = (
            "share of the relevance inside the box, and relative to the box's area (chance: 100)"
        )
        return [
            Measure(("inside",), lambda r: [fmean(r["inside"])], table=title),
            Measure(
                ("gain",),
                lambda r: [fmean(r["inside"]), fmean(r["areas"])],
                lambda means: means[..., 0] / means[..., 1],
                table=title,
            ),
        ]


def share_inside(heat: np.ndarray, box: Box) -> float:
    """Of the positive part of a map, what lies in a box of its pixels."""
    left, top, right, bottom = (int(edge) for edge in box)
    heat = np.maximum(heat, 0)
    return float(heat[top:bottom, left:right].sum()) / (float(heat.sum()) or 1.0)


def overlap(one: Box, other: Box) -> float:
    """The area that two boxes share, of the area that they cover together."""
    corners = np.array([one, other])
    common = np.prod(np.maximum(corners[:, 2:].min(0) - corners[:, :2].max(0), 0))
    areas = np.prod(corners[:, 2:] - corners[:, :2], axis=1)
    return float(common / (areas.sum() - common))


def shares_of(scene: Scene) -> np.ndarray:
    """Each digit's box in shares of the picture, as detections have theirs."""
    height, width = scene.masks.shape[1:]
    return boxes_of(scene) / np.array([width, height, width, height])
