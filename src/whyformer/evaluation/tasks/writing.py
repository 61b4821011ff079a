"""Writing: is the word that decides the next one among the most relevant?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

import numpy as np
import torch

from whyformer.demo.stories import ENDS, Story, draw_story, exchanged
from whyformer.evaluation.data.samples import Drawn, Samples
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.answers import TimedAnswers
from whyformer.evaluation.tasks.known import KnownTruth
from whyformer.evaluation.tasks.metrics import orders_for, tied_share, top
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.evaluation.tasks.texts import scores_of
from whyformer.models.language import LanguagePipeline
from whyformer.models.pipeline import Pipeline
from whyformer.targets import contrast

STORY_SEED = 3_000_017
#: the deciding word is looked for among so many
COUNTS = (1, 2)


class Writing(KnownTruth):
    """Ask why a story's question has this answer, and why this one rather than its rival.

    All that comes before an answer also says that a word of its kind is due; the contrast leaves
    only what tells the two apart.
    """

    name = "writing"
    kind = "language"
    needs = "a language model"
    model = "demo-writer"
    unknown = "the model gets them wrong, or does not follow the word that decides"

    def embedded(self, count: int) -> Samples[Story]:
        """Stories that demo-writer never read."""
        return Drawn("stories", "story", count, lambda i: draw_story([STORY_SEED, i]))

    def knows(self, why: Pipeline, sample: Story) -> bool:
        """Whether the model answers, and answers otherwise where another word decides: what is
        true of the story is then true of the model."""
        assert isinstance(why, LanguagePipeline)
        return all(answers(why, story) for story in (sample, *exchanged(sample)))

    def measure(
        self, why: Pipeline, prepared: Story, methods: Sequence[str], cache: Cache
    ) -> Iterator[tuple[str, Record]]:
        assert isinstance(why, LanguagePipeline)
        ids = why.read(prepared.text).ids.to(next(why.model.parameters()).device)
        given = prepared.text.encode()
        answers = TimedAnswers(why, self.preset, cache, given, lambda: why.model(input_ids=ids))
        read = partial(scores_of, word_places(prepared.words))
        answer, rival = f" {prepared.answer}", f" {prepared.rival}"
        for method in methods:
            record: Record = {"kind": prepared.kind}
            ties = []
            for asked, target in (("word", answer), ("rather", contrast(answer, rival))):
                scores = answers.ask(partial(why.record, prepared.text), method, target, read)
                ties.append(tied_share(scores, COUNTS))
                orders = [top(scores, max(COUNTS), i) for i in orders_for(ties[-1])]
                record[asked] = [found_in(orders, count, prepared.deciding) for count in COUNTS]
            yield method, {**record, "tied": round(max(ties), 6), **answers.clock.cost(method)}

    def measures(self) -> list[Measure]:
        title = "how often the deciding word is the most relevant, and one of the two most relevant"
        asked = {"word": "why the answer", "rather": "why the answer rather than its rival"}
        return [
            Measure(
                (question, f"top_{count}"),
                partial(_found, question, i),
                table=f"{title}: {words}",
            )
            for question, words in asked.items()
            for i, count in enumerate(COUNTS)
        ]


@torch.no_grad()
def answers(why: LanguagePipeline, story: Story) -> bool:
    ids = why.read(story.text).ids.to(next(why.model.parameters()).device)
    said = why.model(input_ids=ids).logits[0, -1].argmax()
    return int(said) == why.index_of(f" {story.answer}")


def found_in(orders: Sequence[Sequence[int]], count: int, place: int) -> float:
    """Over the orders of words with equal scores."""
    return fmean(float(place in order[:count]) for order in orders)


def _found(question: str, place: int, record: Record) -> list[float]:
    return [record[question][place]]


def word_places(words: Sequence[str]) -> np.ndarray:
    """For every character of a story's text, the word it belongs to: a space to the one before."""
    joined = [*(word in ENDS for word in words[1:]), False]
    lengths = [len(word) + (not mark) for word, mark in zip(words, joined, strict=True)]
    return np.repeat(np.arange(len(words)), lengths)
