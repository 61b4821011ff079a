"""Question answering: why the answer starts and ends there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from whyformer.errors import InputError, TargetError
from whyformer.explanation import Explanation
from whyformer.models.pipeline import Pipeline
from whyformer.models.placed import OneText, RecordedText
from whyformer.models.recorded import Ask
from whyformer.recording import Recording
from whyformer.targets import class_index

#: the most pieces of an answer
LONGEST_ANSWER = 30


@dataclass(frozen=True)
class Span:
    """An answer: its text, and its first and last piece."""

    text: str
    first: int
    last: int


class SpansPipeline(OneText):
    """A model that finds the answer to a question in a text, with its own tokenizer.

    Reads a pair (question, text). Classes are all answers of up to 30 pieces in the text;
    ``target`` is one of them as it is written there, by default the most probable.

    Examples:
        >>> why = whyformer.load("./my-reader")
        >>> why(("Where does Anna live?", "Anna lives in Paris."), target="Paris").save("why.png")
        PosixPath('why.png')
    """

    kind, takes = "answers", "text"

    def record(self, inputs: Any, *, progress: bool = False) -> RecordedSpans:
        pair = self.one(inputs)
        if not isinstance(pair, tuple):
            raise InputError(
                f"{self.name} answers questions about a text, and one text was given; give both: "
                "(question, text), on the command line the text with --pair"
            )
        return RecordedSpans(self, *self.read(pair), pair[1])


class RecordedSpans(RecordedText):
    """A question and a text that a model has read."""

    def __init__(self, pipeline: Pipeline, recording: Recording, encoding: Any, text: str) -> None:
        super().__init__(pipeline, recording, encoding)
        self._text = text
        self.spans = self._find_spans()
        places = torch.tensor([(span.first, span.last) for span in self.spans])
        self.logits = recording.logits[:, places[:, 0], places[:, 1]]
        self.labels = [span.text for span in self.spans]

    def index_of(self, item: Any) -> int:
        return self._number(item)

    def answers(self, count: int = 5) -> list[tuple[str, float]]:
        """The most probable answers with their probabilities."""
        shares = self.logits[0].softmax(0)
        best = shares.argsort(descending=True)[:count].tolist()
        return [(self.spans[i].text, float(shares[i])) for i in best]

    def _find_spans(self) -> list[Span]:
        """All answers in the text, each with its letters."""
        encoding = self._encoding
        inside = [
            (i, *offsets)
            for i, (part, offsets) in enumerate(
                zip(encoding.sequence_ids, encoding.offsets, strict=True)
            )
            if part == 1
        ]
        if not inside:
            raise InputError("the text is empty for this model: it has no piece of its vocabulary")
        return [
            Span(self._text[start:end].strip(), first, last)
            for n, (first, start, _) in enumerate(inside)
            for last, _, end in inside[n : n + LONGEST_ANSWER]
        ]

    def _explain(self, target: Any, ask: Ask) -> Explanation:
        several = isinstance(target, list)
        chosen = [self._number(item) for item in (target[0] if several else [target])]
        asked = [(self.spans[i].first, self.spans[i].last) for i in chosen]
        found = ask(self._recording, [asked] if several else asked[0])
        index = torch.tensor([chosen])
        return replace(
            found,
            logits=self.logits,
            target=None if found.target is None else index if several else index[0],
            position=None,
            labels=self.labels,
        )

    def _number(self, item: Any) -> int:
        """One of the answers, by its text or number; of equal texts the most probable."""
        if item is None:
            return int(self.logits[0].argmax())
        if not isinstance(item, str):
            return class_index(item, len(self.spans), None)
        alike = [i for i, span in enumerate(self.spans) if span.text == item.strip()]
        if alike:
            return max(alike, key=lambda i: float(self.logits[0, i]))
        if item.strip() in self._text:
            raise TargetError(
                f"{item!r} starts or ends inside a piece of this model, or is longer than "
                f"{LONGEST_ANSWER} pieces; ask about {self.answers(1)[0][0]!r}, its own answer"
            )
        raise TargetError(
            f"no answer {item!r} in the text; the model's own is {self.answers(1)[0][0]!r}"
        )
