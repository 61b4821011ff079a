"""Segmentation: a map's foreground against a mask."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
from PIL import Image

from whyformer.errors import InputError
from whyformer.evaluation.data.samples import ImageSample
from whyformer.evaluation.tasks.metrics import (
    above_mean,
    is_flat,
    mean_iou,
    overlap,
    segmentation_precision,
)
from whyformer.evaluation.tasks.pictures import Answers, ImageTask, Picture
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.models.pipeline import Pipeline


class Segmentation(ImageTask):
    """Take what lies above a map's mean for the foreground, and compare it with a mask."""

    name = "segmentation"

    def prepare(self, why: Pipeline, sample: ImageSample) -> Picture:
        picture = super().prepare(why, sample)
        if sample.foreground is None:
            raise InputError("the sample has no mask, which segmentation needs")
        height, width = picture.size
        drawn = Image.fromarray(sample.foreground.astype(np.uint8))
        mask = np.asarray(drawn.resize((width, height), Image.Resampling.NEAREST), bool)
        return replace(picture, sample=replace(sample, foreground=mask))

    def measure_one(self, picture: Picture, answers: Answers, method: str) -> Record:
        mask = picture.sample.foreground
        assert mask is not None
        heat = answers.maps(method, [answers.predicted], picture.size)[answers.predicted]
        found = asdict(overlap(above_mean(heat), mask))
        return {**found, "precision": segmentation_precision(heat, mask), "flat": is_flat(heat)}

    def measures(self) -> list[Measure]:
        """Accuracy and IoU over the pixels of the whole data set; precision a mean of images."""
        title = "foreground above the map's mean"
        return [
            Measure(
                ("pixel_accuracy",),
                lambda r: [r["correct"], r["pixels"]],
                lambda means: means[..., 0] / means[..., 1],
                table=title,
            ),
            Measure(
                ("miou",),
                lambda r: [*r["intersection"], *r["union"]],
                lambda means: mean_iou(means[..., :2], means[..., 2:]),
                table=title,
            ),
            Measure(("map",), lambda r: [r["precision"]], table=title, column="mAP"),
            Measure(
                ("miou_of_images",),
                lambda r: [float(mean_iou(np.array(r["intersection"]), np.array(r["union"])))],
            ),
        ]
