"""Sanity: does a map depend on the weights, bear a little noise, and add up?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import ceil

import numpy as np
import torch
from torch import Tensor

from whyformer.errors import NumericalError
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.metrics import is_flat, rank_correlation, relative_change
from whyformer.evaluation.tasks.pictures import Answers, ImageTask, Picture
from whyformer.evaluation.tasks.randomising import cascade
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.methods import get_method
from whyformer.models.images import ImagePipeline

#: shares of the blocks whose weights are random
SHARES = (0.25, 0.5, 0.75, 1.0)
#: how many noisy pictures are asked, and how far a pixel moves at most, of the whole range
NOISES, RADIUS = 5, 0.02
RANDOMISED = (
    "rank correlation with the trained model's map, its sign left out, when a share of the blocks, "
    "from the output down, has random weights"
)
SENSITIVITY = (
    f"largest change of the map, relative to it, of {NOISES} pictures whose pixels moved by up to "
    f"{100 * RADIUS:.0f} %"
)
COMPLETENESS = (
    "difference between the sum of the relevance and the target, relative to the target, for "
    "methods that promise it (up to the biases, or the output of a baseline)"
)


class Sanity(ImageTask):
    """Explain the predicted class of the picture, of noisy ones, and by models without memory.

    Cascading randomisation of Adebayo et al. (2018), on a copy of the model; max-sensitivity of
    Yeh et al. (2019), relative to the map; completeness of Sundararajan et al. (2017).
    """

    name = "sanity"
    stretched = False

    def measure_one(self, picture: Picture, answers: Answers, method: str) -> Record:
        why, pixels, asked = answers.why, picture.pixels, answers.predicted
        heat = answers.maps(method, [asked], picture.size)[asked]
        again = partial(self._map, method=method, asked=asked, size=picture.size)
        forgotten = [rank_correlation(heat, again(other, pixels)) for other in cascade(why)]
        moved = [relative_change(heat, again(why, seen)) for seen in noisy(pixels)]
        record: Record = {
            "flat": is_flat(heat),
            "randomised": [round(share, 6) for share in forgotten],
            "sensitivity": round(max(moved), 6),
        }
        chosen = get_method(method)
        if chosen.facts is not None and chosen.facts.complete:
            recorded = why.record_picture(pixels, chosen.maps)
            quiet = chosen.progress(False)
            answer = recorded.explain(asked, method, self.preset, matrix=False, **quiet)
            target = float(answer.logits[0, asked])
            record["completeness"] = round(incompleteness(answer.relevance[0], target), 6)
        return record

    def _map(
        self, why: ImagePipeline, pixels: Tensor, method: str, asked: int, size: tuple[int, int]
    ) -> np.ndarray:
        """Of another model or picture, which no cache keeps."""
        return Answers(why, pixels, self.preset, Cache(), self.grain).maps(method, [asked], size)[
            asked
        ]

    def measures(self) -> list[Measure]:
        few = partial(Measure, less_is_better=True)
        forgotten = partial(few, table=RANDOMISED)
        curve = [
            forgotten(
                ("randomised", "curve", f"{share:.2f}"),
                partial(_after, share),
                column=f"{100 * share:.0f} %",
            )
            for share in SHARES
        ]
        mean = forgotten(
            ("randomised", "mean"), lambda r: [float(np.mean(np.abs(r["randomised"])))]
        )
        moved = few(("sensitivity",), lambda r: [r["sensitivity"]], table=SENSITIVITY)
        complete = few(
            ("completeness_error",),
            lambda r: [r["completeness"]] if "completeness" in r else None,
            table=COMPLETENESS,
        )
        return [*curve, mean, moved, complete]


def noisy(pixels: Tensor) -> Iterator[Tensor]:
    """Pictures whose pixels moved a little, the same ones every time; none leaves 0 to 1."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(NOISES):
        moved = pixels + RADIUS * (2 * torch.rand(pixels.shape, generator=generator) - 1)
        yield moved.clamp(0, 1)


def incompleteness(relevance: Tensor, target: float) -> float:
    """|sum_i R_i - y| / |y|."""
    if target == 0:
        raise NumericalError("the predicted class's logit is 0: completeness is relative to it")
    return abs(float(relevance.double().sum()) - target) / abs(target)


def _after(share: float, record: Record) -> list[float]:
    found = record["randomised"]
    return [abs(found[ceil(share * len(found)) - 1])]
