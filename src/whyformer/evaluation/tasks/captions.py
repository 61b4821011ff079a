"""Captions: does the digit that a text names get the relevance, and the words that name it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from whyformer.demo.captions import NUMBERS, Captioned, draw_captioned, with_article
from whyformer.evaluation.data.samples import Drawn, Samples
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.answers import TimedAnswers
from whyformer.evaluation.tasks.known import KnownTruth
from whyformer.evaluation.tasks.metrics import orders_for, tied_share, top
from whyformer.evaluation.tasks.pictures import bytes_of, enlarged, map_of
from whyformer.evaluation.tasks.pointing import on_each, shares_measures
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.evaluation.tasks.texts import scores_of, token_places
from whyformer.explanation import Explanation
from whyformer.models.pipeline import Pipeline
from whyformer.models.towers import TowersPipeline

SCENE_SEED = 3_000_037
#: the words of a caption that are looked at: it names two digits
NAMED = 2


class Captions(KnownTruth):
    """Ask about each digit of a scene by its name alone, then about the caption of both."""

    name = "captions"
    kind = "towers"
    needs = "a model that compares images with texts"
    model = "demo-clip"

    def embedded(self, count: int) -> Samples[Captioned]:
        """Scenes of two digits that demo-clip never saw, each with a caption that names both."""
        draw = lambda i: draw_captioned([SCENE_SEED, i])  # noqa: E731
        return Drawn("captioned scenes", "captioned", count, draw)

    def knows(self, why: Pipeline, sample: Captioned) -> bool:
        """Of all ten digits' names those of the two that are there fit best."""
        assert isinstance(why, TowersPipeline)
        names = [with_article(digit) for digit in range(len(NUMBERS))]
        fits = why.record(sample.scene.image, text=names).logits[0]
        return set(fits.topk(2).indices.tolist()) == set(sample.scene.labels)

    def measure(
        self, why: Pipeline, prepared: Captioned, methods: Sequence[str], cache: Cache
    ) -> Iterator[tuple[str, Record]]:
        assert isinstance(why, TowersPipeline)
        scene = prepared.scene
        names = [with_article(digit) for digit in scene.labels]
        record = partial(why.record, scene.image, text=[*names, prepared.caption])
        answers = TimedAnswers(why, self.preset, cache, bytes_of(scene.image))
        masks = dict(zip(names, scene.masks, strict=True))
        size = scene.masks.shape[1], scene.masks.shape[2]
        words = prepared.caption.split()
        for method in methods:
            heats = {
                name: enlarged(answers.ask(record, method, name, map_of), size) for name in names
            }
            shares = [on_each(heat, masks, name) for name, heat in heats.items()]
            scores = answers.ask(record, method, prepared.caption, partial(caption_scores, words))
            tied = tied_share(scores, [NAMED])
            chosen = [i for order in orders_for(tied) for i in top(scores, NAMED, order)]
            named = float(np.mean([words[i] in NUMBERS for i in chosen]))
            found = {"shares": shares, "named": named, "tied": round(tied, 6)}
            yield method, {**found, **answers.clock.cost(method)}

    def measures(self) -> list[Measure]:
        words = Measure(
            ("named",),
            lambda r: [r["named"]],
            table="share of digits' names among the two most relevant words of a caption of both",
        )
        return [*shares_measures("digit"), words]


def caption_scores(words: Sequence[str], answer: Explanation) -> np.ndarray:
    """A score for each word of a caption."""
    return scores_of(token_places(words), answer.part("input_ids"))
