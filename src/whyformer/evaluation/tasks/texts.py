"""Documents as text models read them, and what methods say about their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whyformer.code import code_of
from whyformer.engine.outputs import as_output, check_samples
from whyformer.errors import InputError
from whyformer.evaluation.data.documents import Document
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.run.timing import Clock
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


class WordAnswers:
    """What methods say about a passage's tokens, each from a recording of its own, timed."""

    def __init__(self, why: TextPipeline, passage: Passage, preset: str, cache: Cache) -> None:
        self._why, self._passage, self._preset, self._cache = why, passage, preset, cache
        self._given = f"{why.longest} {passage.text}".encode()
        self.clock = Clock(next(why.model.parameters()).device)

    @cached_property
    def logits(self) -> np.ndarray:
        return self._cache.remember("logits", self._given, self._forward)

    def _forward(self) -> np.ndarray:
        """The logits, from the model's own forward, whose time is what others are compared with."""
        found, self.clock.forward = self.clock.time(
            lambda: logits_of(self._why, self._passage.text)
        )
        return found[0].float().cpu().numpy()

    def scores(self, method: str, target: int, **options: Any) -> np.ndarray:
        """A score for each token of the passage: its highest piece's; -inf where none was read."""
        asked = target if get_method(method).class_specific else None
        name = f"{method} {code_of(method)} {options} {self._preset} {asked}"
        return self._cache.remember(name, self._given, lambda: self._ask(method, asked, options))

    def _ask(self, method: str, target: int | None, options: dict[str, Any]) -> np.ndarray:
        if "progress" in get_method(method).options:
            options = {**options, "progress": False}
        if self.clock.forward is None:
            self._forward()
        answer, seconds = self.clock.time(
            lambda: self._why.record(self._passage.text).explain(
                target, method, self._preset, matrix=False, **options
            )
        )
        self.clock.add(method, seconds)
        assert answer.pieces is not None
        places = token_places(self._passage.tokens)
        return word_scores(answer.pieces[0], answer.relevance[0].tolist(), places)


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
