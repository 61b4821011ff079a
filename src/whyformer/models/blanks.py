"""Masked words: why this word in that blank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.explanation import Explanation
from whyformer.models.placed import OneText, RecordedText
from whyformer.models.recorded import Ask
from whyformer.models.vocabulary import Vocabulary
from whyformer.targets import class_index

#: how people write a blank
BLANK = "___"


class BlanksPipeline(OneText):
    """A masked language model with its own tokenizer.

    Reads a text with a blank, written as the tokenizer's mask, such as "[MASK]", or as "___".
    ``target`` is a word of the vocabulary, by default the most probable; ``position`` says which of
    several blanks is asked about.

    Examples:
        >>> why = whyformer.load("./my-masked")
        >>> why("a warm ___ without plot", target="film").save("why.html")
        PosixPath('why.html')
    """

    kind, takes = "blanks", "text"

    def __init__(self, name: str, explainer: Explainer, tokenizer: Any, longest: int) -> None:
        super().__init__(name, explainer, tokenizer, longest)
        config: Any = explainer.model.config
        self.vocabulary = Vocabulary(tokenizer, config.vocab_size)
        explainer.labels = self.vocabulary.names

    def index_of(self, item: Any) -> int:
        """The token of a word, or of a number."""
        if isinstance(item, str):
            return self.vocabulary.index(item)
        return class_index(item, len(self.vocabulary), None)

    def record(self, inputs: Any, *, progress: bool = False) -> RecordedBlanks:
        text = self.one(inputs)
        mask = self.tokenizer.mask_token
        parts = text if isinstance(text, tuple) else (text,)
        if not any(mask in part or BLANK in part for part in parts):
            raise InputError(
                f"the text has no blank; write {mask} or {BLANK} where a word is missing"
            )
        filled = tuple(part.replace(BLANK, mask) for part in parts)
        read = self.read((filled[0], filled[1]) if len(filled) == 2 else filled[0])
        return RecordedBlanks(self, *read)


class RecordedBlanks(RecordedText):
    """A text with blanks that a model has read."""

    pipeline: BlanksPipeline

    @property
    def blanks(self) -> list[int]:
        """The pieces that are blanks."""
        ids = self._encoding.ids
        return [i for i, token in enumerate(ids) if token == self.pipeline.tokenizer.mask_token_id]

    def index_of(self, item: Any) -> int:
        return self.pipeline.index_of(item)

    @property
    def places(self) -> list[str]:
        return [self.pipeline.tokenizer.mask_token] * len(self.blanks)

    def likeliest(self, count: int, position: Any = None) -> list[int]:
        logits = self.logits[0, self._place(position or 0)]
        return logits.argsort(descending=True)[:count].tolist()

    def _place(self, position: Any) -> int:
        blanks = self.blanks
        if not isinstance(position, int) or not -len(blanks) <= position < len(blanks):
            raise InputError(f"blank {position} of a text with {len(blanks)}; count from 0")
        return blanks[position]

    def _explain(self, target: Any, ask: Ask, position: int = 0) -> Explanation:
        place = self._place(position)
        several = isinstance(target, list)
        chosen = [self._token(item, place) for item in (target[0] if several else [target])]
        asked = [(place, index) for index in chosen]
        found = ask(self._recording, [asked] if several else asked[0])
        return replace(found, logits=self.logits[:, place], position=None)

    def _token(self, item: Any, place: int) -> int:
        if item is None:
            return int(self.logits[0, place].argmax())
        return self.pipeline.index_of(item)
