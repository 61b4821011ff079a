"""Rationales: are the words that a method finds those that people marked? (ERASER's token-F1)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whyformer.errors import InputError
from whyformer.evaluation import estimates
from whyformer.evaluation.documents import Document
from whyformer.evaluation.metrics import token_score, top
from whyformer.evaluation.task import Figures, Record, Task
from whyformer.methods import get_method
from whyformer.models.pipeline import Pipeline
from whyformer.models.texts import TextPipeline
from whyformer.words import Piece

#: how many words are taken for the rationale
COUNTS = tuple(range(10, 90, 10))
CUTS = ("head", "tail", "windows")


@dataclass(frozen=True)
class Rationales(Task):
    """Explain the ground truth's class; the top words are the rationale.

    ``cut``: what is read of a document longer than the model: its head, as in the paper, its tail,
    or all of it in windows. Evidence that was not read counts against recall.
    """

    cut: str = "head"

    name = "rationales"

    def measure(self, why: Pipeline, sample: Document) -> Record:
        if not isinstance(why, TextPipeline):
            raise InputError(f"rationales need a text model, and {why.name} reads {why.kind}s")
        text, first = self._read(why, sample.tokens)
        recorded = why.record(text)
        places = token_places(sample.tokens[first:])
        outcomes = {}
        for method in self.methods:
            target = sample.label if get_method(method).class_specific else None
            explanation = recorded.explain(target, method, self.preset, **self._options(method))
            assert explanation.pieces is not None
            scores = word_scores(explanation.pieces[0], explanation.relevance[0].tolist(), places)
            read = sum(np.isfinite(scores))
            best = [first + place for place in top(scores, min(max(COUNTS), read))]
            outcomes[method] = [token_score(best[:count], sample.evidence).f1 for count in COUNTS]
        return {"methods": outcomes}

    def _read(self, why: TextPipeline, tokens: Sequence[str]) -> tuple[str, int]:
        """The text that is explained, and the place of its first token."""
        if self.cut == "windows":
            return " ".join(tokens), 0
        kept = why.fitting(tokens, from_end=self.cut == "tail")
        first = len(tokens) - kept if self.cut == "tail" else 0
        return " ".join(tokens[first : first + kept]), first

    def figures(self, records: Sequence[Record]) -> Figures:
        found: Figures = {}
        for method in self.methods:
            f1 = np.array([record["methods"][method] for record in records])
            found[method] = {str(count): estimates.mean(f1[:, i]) for i, count in enumerate(COUNTS)}
        return found


def token_places(tokens: Sequence[str]) -> np.ndarray:
    """For every character of the tokens joined by spaces, the token it belongs to."""
    lengths = [len(token) + 1 for token in tokens]
    return np.repeat(np.arange(len(tokens)), lengths)


def word_scores(
    pieces: Sequence[Piece], relevance: Sequence[float], places: np.ndarray
) -> list[float]:
    """Each token's highest piece; tokens that were not read have none, and come last."""
    scores = np.full(int(places[-1]) + 1, -np.inf)
    position = 0
    for piece, score in zip(pieces, relevance, strict=True):
        if piece.word is None:
            continue
        start = position + len(piece.gap)
        position = start + len(piece.text)
        for place in np.unique(places[start : max(position, start + 1)]):
            scores[place] = max(scores[place], score)
    return scores.tolist()
