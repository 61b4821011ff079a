"""The paper's own figures, to stand beside a run whose model and data are the paper's."""

from __future__ import annotations

from typing import Any

import torch

from whyformer.evaluation.data.samples import Samples
from whyformer.evaluation.tasks.task import Measure
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline

#: Chefer, Gur, Wolf (CVPR 2021), Tables 1 to 3: ViT-B/16 on ImageNet's 50,000 validation images
PERTURBATION = {
    "rollout": {"negative_predicted": 53.1, "positive_predicted": 20.05},
    "raw_attention": {"negative_predicted": 45.55, "positive_predicted": 23.99},
    "gradcam": {
        "negative_predicted": 41.52, "positive_predicted": 34.06,
        "negative_target": 42.02, "positive_target": 33.56,
    },
    "lrp": {
        "negative_predicted": 43.49, "positive_predicted": 41.94,
        "negative_target": 43.49, "positive_target": 41.93,
    },
    "partial_lrp": {
        "negative_predicted": 50.49, "positive_predicted": 19.64,
        "negative_target": 50.49, "positive_target": 19.64,
    },
    "transformer_attribution": {
        "negative_predicted": 54.16, "positive_predicted": 17.03,
        "negative_target": 55.04, "positive_target": 16.04,
    },
    "ablation_no_gradient": {"negative_predicted": 52.88, "positive_predicted": 18.23},
    "ablation_last_block": {"negative_predicted": 52.43, "positive_predicted": 18.01},
    "ablation_second_block": {"negative_predicted": 37.42, "positive_predicted": 27.33},
}  # fmt: skip
#: the same model on ImageNet-Segmentation: pixel accuracy, mAP, mIoU
SEGMENTATION = {
    "rollout": (73.54, 84.76, 55.42),
    "raw_attention": (67.84, 80.24, 46.37),
    "gradcam": (64.44, 71.60, 40.82),
    "lrp": (51.09, 55.68, 32.89),
    "partial_lrp": (76.31, 84.67, 57.94),
    "transformer_attribution": (79.70, 86.03, 61.95),
    "ablation_no_gradient": (77.66, 85.66, 59.88),
    "ablation_last_block": (78.32, 85.25, 59.93),
    "ablation_second_block": (60.30, 73.63, 39.06),
}

#: how many images the paper's data sets have: figures of a part of them are no peers
WHOLE = {"imagenet": 50_000, "imagenet-segmentation": 4_276}


def published(
    benchmark: str, why: Pipeline, samples: Samples[Any], measures: list[Measure]
) -> dict[tuple[str, Measure], float]:
    """The paper's figures by method and measure; none where the model or the data are others."""
    if not is_vit_base(why.model) or not isinstance(why, ImagePipeline) or not halves(why):
        return {}
    if len(samples) != WHOLE.get(samples.benchmark or ""):
        return {}
    by_path: dict[tuple[str, tuple[str, ...]], float] = {}
    if benchmark == "perturbation" and samples.benchmark == "imagenet":
        for method, row in PERTURBATION.items():
            by_path |= {(method, (setting, "auc")): value for setting, value in row.items()}
    if benchmark == "segmentation" and samples.benchmark == "imagenet-segmentation":
        for method, figures in SEGMENTATION.items():
            names = ("pixel_accuracy", "map", "miou")
            by_path |= {(method, (n,)): v for n, v in zip(names, figures, strict=True)}
    known = {measure.path: measure for measure in measures}
    return {(method, known[path]): value for (method, path), value in by_path.items()}


def halves(why: ImagePipeline) -> bool:
    """Whether pixels are normalised by 0.5 and 0.5, as ViT's are and those of DeiT-B/16 are not."""
    pixels = torch.tensor([0.0, 0.5, 1.0]).view(3, 1, 1, 1).expand(3, 3, 1, 1)
    return bool(torch.allclose(why.normalise(pixels), 2 * pixels - 1))


def is_vit_base(model: Any) -> bool:
    """A ViT-B/16 for ImageNet-1k at 224 pixels, by the shapes of its weights.

    Its patch embedding is a convolution to 768 channels by 16 x 16, its head has 1000 classes, and
    it has places for 196 patches and a class token.
    """
    shapes = [tuple(parameter.shape) for parameter in model.parameters()]
    wide = sum(shape == (3072, 768) for shape in shapes)
    needed = {(768, 3, 16, 16), (1000, 768), (1, 197, 768)}
    return needed <= set(shapes) and wide == 12
