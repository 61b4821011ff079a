"""Erasure: what becomes of a prediction without the words that a method finds, or with them alone.

Comprehensiveness and sufficiency of DeYoung et al. (ERASER, 2020), means over five shares of the
words as in their scorer, and the area over the perturbation curve (AOPC) of Samek et al. (2017) for
the first words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from torch import Tensor

from whyformer.engine.outputs import as_output, check_samples
from whyformer.errors import InputError
from whyformer.evaluation.data.documents import Document
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.metrics import orders_for, tied_share, top
from whyformer.evaluation.tasks.task import Measure, Record, Task
from whyformer.evaluation.tasks.texts import WordAnswers, read_passage
from whyformer.models.pipeline import Pipeline
from whyformer.models.texts import TextPipeline

#: ERASER's shares of a document's words
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
#: how many words go one after another for AOPC
STEPS = 10
REMOVALS = ("mask", "delete")


@dataclass(frozen=True)
class Erasure(Task):
    """Explain the predicted class, then take the most relevant words away, or keep only them.

    ``removal``: a word becomes the tokenizer's mask ("mask"), or leaves no trace ("delete").
    """

    cut: str = "head"
    removal: str = "mask"

    name = "erasure"
    kind = "text"

    def measure(
        self, why: Pipeline, prepared: Document, methods: Sequence[str], cache: Cache
    ) -> Iterator[tuple[str, Record]]:
        assert isinstance(why, TextPipeline)
        if self.cut == "windows":
            raise InputError("erasure reads the head or the tail of a long document, not windows")
        if self.removal == "mask" and why.tokenizer.mask_token is None:
            raise InputError(f"the tokenizer of {why.name} has no mask; delete words instead")
        passage = read_passage(why, prepared, self.cut)
        answers = WordAnswers(why, passage, self.preset, cache)
        predicted = int(answers.logits.argmax())
        whole = float(torch.from_numpy(answers.logits).softmax(-1)[predicted])
        tokens = passage.tokens
        counts = [ceil(len(tokens) * share) for share in SHARES]
        steps = range(1, min(STEPS, len(tokens)) + 1)
        for method in methods:
            scores = answers.scores(method, predicted)
            tied = tied_share(scores, [*counts, *steps])
            orders = [top(scores, len(tokens), i) for i in orders_for(tied)]
            without = [[order[:count] for count in (*counts, *steps)] for order in orders]
            alone = [[order[count:] for count in counts] for order in orders]
            left = self._probability(why, tokens, without, predicted)
            kept = self._probability(why, tokens, alone, predicted)
            record = {
                "whole": round(whole, 6),
                "removed": [round(p, 6) for p in left[: len(counts)]],
                "steps": [round(p, 6) for p in left[len(counts) :]],
                "kept": [round(p, 6) for p in kept],
                "tied": round(tied, 6),
            }
            yield method, {**record, **answers.clock.cost(method)}

    def _probability(
        self,
        why: TextPipeline,
        tokens: Sequence[str],
        orders: Sequence[Sequence[Sequence[int]]],
        predicted: int,
    ) -> list[float]:
        """Of the class without each choice of words; a mean over the orders of tied words."""
        found = [
            probabilities(why, [self._without(why, tokens, gone) for gone in choices])
            for choices in orders
        ]
        return torch.stack(found).mean(0)[:, predicted].tolist()

    def _without(self, why: TextPipeline, tokens: Sequence[str], gone: Sequence[int]) -> str:
        removed = set(gone)
        if self.removal == "delete":
            return " ".join(token for i, token in enumerate(tokens) if i not in removed)
        mask = why.tokenizer.mask_token
        return " ".join(mask if i in removed else token for i, token in enumerate(tokens))

    def measures(self) -> list[Measure]:
        done = {"mask": "masked", "delete": "deleted"}[self.removal]
        title = f"drop of the predicted class's probability when words are {done}, in points"
        return [
            Measure(
                ("comprehensiveness",),
                lambda r: [r["whole"] - np.mean(r["removed"])],
                table=title,
            ),
            Measure(
                ("sufficiency",),
                lambda r: [r["whole"] - np.mean(r["kept"])],
                table=title,
                less_is_better=True,
            ),
            Measure(
                ("aopc",),
                lambda r: [sum(r["whole"] - p for p in r["steps"]) / (len(r["steps"]) + 1)],
                table=title,
            ),
        ]


@torch.no_grad()
def probabilities(why: TextPipeline, texts: Sequence[str]) -> Tensor:
    """Of every class, (texts, classes)."""
    device = next(why.model.parameters()).device
    encoded = why.tokenizer(
        list(texts), padding=True, truncation=True, max_length=why.longest, return_tensors="pt"
    ).to(device)
    return (
        check_samples(as_output(why.model(**encoded), None), len(texts)).float().softmax(-1).cpu()
    )
