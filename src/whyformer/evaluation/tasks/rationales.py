"""Rationales: are the words that a method finds those that people marked? (ERASER's token-F1)"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from whyformer.engine.rules import get_preset
from whyformer.errors import InputError
from whyformer.evaluation.data.documents import Document
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.metrics import (
    ORDERS,
    average_precision,
    tied_share,
    token_score,
    top,
)
from whyformer.evaluation.tasks.task import Measure, Record, Task
from whyformer.evaluation.tasks.texts import WordAnswers, read_passage
from whyformer.methods import DEFAULT_METHOD
from whyformer.methods.variants import SEPARATOR
from whyformer.models.pipeline import Pipeline
from whyformer.models.texts import TextPipeline

#: how many words are taken for the rationale
COUNTS = tuple(range(10, 90, 10))


@dataclass(frozen=True)
class Rationales(Task):
    """Explain the ground truth's class; the top words are the rationale.

    ``cut``: what is read of a document longer than the model: its head, as in the paper, its tail,
    or all of it in windows. Evidence that was not read counts against recall.
    """

    cut: str = "head"

    name = "rationales"
    kind = "text"

    def measure(
        self, why: Pipeline, prepared: Document, methods: Sequence[str], cache: Cache
    ) -> Iterator[tuple[str, Record]]:
        assert isinstance(why, TextPipeline)
        document = prepared
        if not document.evidence:
            raise InputError("the sample has no evidence, which rationales need")
        passage = read_passage(why, document, self.cut)
        answers = WordAnswers(why, passage, self.preset, cache)
        truth = np.zeros(len(document.tokens), bool)
        truth[sorted(document.evidence)] = True
        for method in methods:
            scores = np.full(len(document.tokens), -np.inf)
            part = slice(passage.first, passage.first + len(passage.tokens))
            scores[part] = answers.scores(method, document.label, **self._options(method))
            taken = min(max(COUNTS), int(np.isfinite(scores).sum()))
            orders = [top(scores, taken, order) for order in range(ORDERS)]
            record = {
                "docid": document.docid or document.key,
                "best": orders[0],
                "f1": [mean_f1(orders, count, document.evidence) for count in COUNTS],
                "precision": average_precision(truth, scores),
                "tied": round(tied_share(scores, COUNTS), 6),
            }
            yield method, {**record, **answers.clock.cost(method)}

    def _options(self, method: str) -> dict[str, Any]:
        """A preset may look at the last block alone, as the authors' benchmark does."""
        alone = get_preset(self.preset).conventions.last_block_for_rationales
        name, *given = method.split(SEPARATOR)
        told = any(option.startswith("blocks=") for option in given)
        return {"blocks": -1} if alone and name == DEFAULT_METHOD and not told else {}

    def measures(self) -> list[Measure]:
        title = "token-F1 of the top words against people's evidence"
        found = [
            Measure(("token_f1", str(count)), partial(_f1, i), table=title)
            for i, count in enumerate(COUNTS)
        ]
        precision = Measure(
            ("average_precision",),
            lambda r: [r["precision"]],
            table="average precision of all words' scores; words that were not read come last",
        )
        return [*found, precision]


def mean_f1(orders: Sequence[Sequence[int]], count: int, evidence: Collection[int]) -> float:
    """Over the orders of words with equal scores."""
    return float(np.mean([token_score(best[:count], evidence).f1 for best in orders]))


def _f1(place: int, record: Record) -> list[float]:
    return [record["f1"][place]]


def eraser_lines(records: Iterable[Record], count: int) -> Iterator[dict[str, Any]]:
    """Rationales of ``count`` words as ERASER's own scorer reads them, an object a line."""
    for record in records:
        places = sorted(record["best"][:count])
        spans = [{"start_token": place, "end_token": place + 1} for place in places]
        yield {
            "annotation_id": record["key"],
            "rationales": [{"docid": record["docid"], "hard_rationale_predictions": spans}],
        }
