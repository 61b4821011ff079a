"""Documents as text models read them, and what methods say about their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whyformer.engine.outputs import as_output, check_samples
from whyformer.errors import InputError
from whyformer.evaluation.data.documents import Document
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.answers import TimedAnswers
from whyformer.explanation import Explanation, Part
from whyformer.methods import get_method
from whyformer.models.texts import TextPipeline
from whyformer.words import Piece

#: what is read of a document that is longer than the model takes
CUTS = ("head", "tail", "windows")


@dataclass(frozen=True)
class Passage:
    """The part of a document that the model reads, and the place of its first token."""

    document: Document
    tokens: list[str]
    first: int

    @property
    def text(self) -> str:
        return " ".join(self.tokens)


def read_passage(why: TextPipeline, document: Document, cut: str) -> Passage:
    if document.query:
        raise InputError("the sample asks a query about a document; expected a document alone")
    if cut == "windows":
        return Passage(document, document.tokens, 0)
    kept = why.fitting(document.tokens, from_end=cut == "tail")
    first = len(document.tokens) - kept if cut == "tail" else 0
    return Passage(document, document.tokens[first : first + kept], first)


class WordAnswers(TimedAnswers):
    """What methods say about a passage's tokens, each from a recording of its own."""

    def __init__(self, why: TextPipeline, passage: Passage, preset: str, cache: Cache) -> None:
        given = f"{why.longest} {passage.text}".encode()
        super().__init__(why, preset, cache, given, lambda: logits_of(why, passage.text))
        self._why, self._passage = why, passage

    def scores(self, method: str, target: int, **options: Any) -> np.ndarray:
        """A score for each token of the passage: its highest piece's; -inf where none was read."""
        asked = target if get_method(method).class_specific else None
        record = partial(self._why.record, self._passage.text)
        read = partial(scores_of, token_places(self._passage.tokens))
        return self.ask(record, method, asked, read, **options)


@torch.no_grad()
def logits_of(why: TextPipeline, text: str) -> Tensor:
    """The model's own answer to a text, (1, classes): of several windows, the mean."""
    found = []
    for batch in why.batches(text):
        inputs: Any = why.explainer.place(batch)
        output = why.model(**inputs)
        rows = as_output(output, why.explainer.output)
        found.append(check_samples(rows, len(batch["input_ids"])))
    return torch.cat(found).mean(0, keepdim=True)


def token_places(tokens: Sequence[str]) -> np.ndarray:
    """For every character of the tokens joined by spaces, the token it belongs to."""
    lengths = [len(token) + 1 for token in tokens]
    return np.repeat(np.arange(len(tokens)), lengths)


def scores_of(places: np.ndarray, answer: Explanation | Part) -> np.ndarray:
    """A score for each word that a character of the text belongs to."""
    assert answer.pieces is not None
    return word_scores(answer.pieces[0], answer.relevance[0].tolist(), places)


def word_scores(
    pieces: Sequence[Piece], relevance: Sequence[float], places: np.ndarray
) -> np.ndarray:
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
    return scores
