"""The image benchmarks: what is measured of a sample, and what a data set's figures are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from whyformer.engine.trace import as_logits
from whyformer.errors import InputError
from whyformer.evaluation import estimates
from whyformer.evaluation.metrics import (
    above_mean,
    area_under_curve,
    mean_iou,
    overlap,
    removal_order,
    removed,
    segmentation_precision,
)
from whyformer.evaluation.samples import ImageSample
from whyformer.evaluation.task import Figures, Record, Task
from whyformer.methods import get_method
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline, Recorded

#: the shares of an image's pixels that perturbation removes
SHARES = tuple(step / 10 for step in range(1, 10))


class ImageTask(Task):
    """A benchmark of image models."""

    def measure(self, why: Pipeline, sample: ImageSample) -> Record:
        if not isinstance(why, ImagePipeline):
            raise InputError(f"{self.name} needs an image model, and {why.name} reads {why.kind}s")
        return self.measure_image(why, sample)

    @abstractmethod
    def measure_image(self, why: ImagePipeline, sample: ImageSample) -> Record: ...

    def _maps(
        self,
        recorded: Recorded,
        targets: Sequence[int],
        method: str,
        size: tuple[int, int] | None = None,
    ) -> dict[int, np.ndarray]:
        """A map for each target; a class-agnostic method makes one for all of them."""
        chosen = get_method(method)
        wanted = list(dict.fromkeys(targets)) if chosen.class_specific else None
        explanation = recorded.explain(wanted, method, self.preset, **self._options(method))
        maps = explanation.image_map(size)[0].double().cpu().numpy()
        if wanted is None:
            return dict.fromkeys(targets, maps)
        return dict(zip(wanted, maps, strict=True))


class Perturbation(ImageTask):
    """Remove pixels in the order of their relevance and see how long the model is right.

    Black before normalisation, in steps of a tenth; top-1 accuracy against the ground truth.
    """

    name = "perturbation"

    def measure_image(self, why: ImagePipeline, sample: ImageSample) -> Record:
        if sample.label is None:
            raise InputError("the sample has no label, which perturbation needs")
        picture = why.read(sample.image)
        recorded = why.record_picture(picture)
        predicted = int(recorded.logits[0].argmax())
        if not 0 <= sample.label < recorded.logits.shape[1]:
            raise InputError(
                f"label {sample.label} of a model with {recorded.logits.shape[1]} classes"
            )
        outcomes: Record = {}
        for method in self.methods:
            asked = {"predicted": predicted}
            if get_method(method).class_specific:
                asked["target"] = sample.label
            maps = self._maps(recorded, list(asked.values()), method)
            right = {
                target: perturb(why, picture, heat, sample.label) for target, heat in maps.items()
            }
            outcomes[method] = {
                f"{direction}_{which}": right[target][direction]
                for which, target in asked.items()
                for direction in ("positive", "negative")
            }
        return {"whole": int(predicted == sample.label), "methods": outcomes}

    def figures(self, records: Sequence[Record]) -> Figures:
        """Areas under the curve, from the whole image to nine tenths removed."""
        shares = (0.0, *SHARES)
        found: Figures = {}
        for method in self.methods:
            settings = records[0]["methods"][method]
            found[method] = {
                setting: estimates.mean(
                    np.array(
                        [
                            area_under_curve(shares, [r["whole"], *r["methods"][method][setting]])
                            for r in records
                        ]
                    )
                )
                for setting in settings
            }
        return found


def perturb(
    why: ImagePipeline, picture: Tensor, heat: np.ndarray, label: int
) -> dict[str, list[int]]:
    """Whether the model is right after each step, for both directions, in one batch."""
    copies = picture.repeat(2 * len(SHARES), 1, 1, 1)
    flat = copies.flatten(2)
    for half, positive in enumerate((True, False)):
        order = removal_order(heat, positive)
        for step, share in enumerate(SHARES):
            flat[half * len(SHARES) + step, :, torch.from_numpy(removed(order, share).copy())] = 0
    right = (logits_of(why, copies).argmax(-1) == label).int().tolist()
    return {"positive": right[: len(SHARES)], "negative": right[len(SHARES) :]}


@torch.no_grad()
def logits_of(why: ImagePipeline, picture: Tensor) -> Tensor:
    parameter = next(why.model.parameters())
    pixels = why.normalise(picture).to(parameter.device, parameter.dtype)
    return as_logits(why.model(pixels), len(picture)).cpu()


class Segmentation(ImageTask):
    """Take what lies above a map's mean for the foreground, and compare it with a mask."""

    name = "segmentation"

    def measure_image(self, why: ImagePipeline, sample: ImageSample) -> Record:
        if sample.foreground is None:
            raise InputError("the sample has no mask, which segmentation needs")
        height, width = why.input_size
        drawn = Image.fromarray(sample.foreground.astype(np.uint8))
        mask = np.asarray(drawn.resize((width, height), Image.Resampling.NEAREST), bool)
        recorded = why.record_picture(why.fit(sample.image))
        predicted = int(recorded.logits[0].argmax())
        outcomes = {}
        for method in self.methods:
            heat = self._maps(recorded, [predicted], method, (height, width))[predicted]
            outcomes[method] = {
                **asdict(overlap(above_mean(heat), mask)),
                "precision": segmentation_precision(heat, mask),
            }
        return {"methods": outcomes}

    def figures(self, records: Sequence[Record]) -> Figures:
        """Accuracy and IoU over the pixels of the whole data set; precision a mean of images."""
        found: Figures = {}
        for method in self.methods:
            rows = [record["methods"][method] for record in records]
            sums = np.array(
                [
                    [row["correct"], row["pixels"], *row["intersection"], *row["union"]]
                    for row in rows
                ]
            )
            found[method] = {
                "pixel_accuracy": estimates.bootstrap(sums, lambda m: m[..., 0] / m[..., 1]),
                "miou": estimates.bootstrap(sums, lambda m: mean_iou(m[..., 2:4], m[..., 4:6])),
                "map": estimates.mean(np.array([row["precision"] for row in rows])),
            }
        return found


class Pointing(ImageTask):
    """Ask about each of several objects: whose pixels get more of the relevance?"""

    name = "pointing"

    def measure_image(self, why: ImagePipeline, sample: ImageSample) -> Record:
        if len(sample.masks) < 2:
            raise InputError("the sample has fewer than two masks, which pointing needs")
        recorded = why.record_picture(why.fit(sample.image))
        size = next(iter(sample.masks.values())).shape
        outcomes = {}
        for method in self.methods:
            shares = []
            for asked, heat in self._maps(recorded, list(sample.masks), method, size).items():
                heat = np.maximum(heat, 0)
                inside = {other: heat[mask].sum() for other, mask in sample.masks.items()}
                rest = max(part for other, part in inside.items() if other != asked)
                total = float(heat.sum()) or 1.0
                shares.append([float(inside[asked]) / total, float(rest) / total])
            outcomes[method] = shares
        return {"methods": outcomes}

    def figures(self, records: Sequence[Record]) -> Figures:
        found: Figures = {}
        for method in self.methods:
            pairs = [np.array(record["methods"][method]) for record in records]
            hits = [np.where(p[:, 0] == p[:, 1], 0.5, p[:, 0] > p[:, 1]).mean() for p in pairs]
            found[method] = {
                "inside": estimates.mean(np.array([p[:, 0].mean() for p in pairs])),
                "other": estimates.mean(np.array([p[:, 1].mean() for p in pairs])),
                "points": estimates.mean(np.array(hits)),
            }
        return found
