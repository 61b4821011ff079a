"""Taggers: why this tag on that word."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from whyformer.explanation import Explanation
from whyformer.models.placed import OneText, RecordedText
from whyformer.models.recorded import Ask
from whyformer.targets import class_index
from whyformer.words import Word, words_of

#: the tag of words that are nothing, in most sets of tags
OUTSIDE = "O"


@dataclass(frozen=True)
class Tag:
    """A word, the tag that the model gave it, and how sure it was."""

    word: str
    tag: str
    probability: float


class TagsPipeline(OneText):
    """A token classifier with its own tokenizer.

    ``position`` is the word that is asked about, as it is written or by its number; without it, the
    surest word that is tagged with more than "O". ``target`` is a tag, by default the model's.

    Examples:
        >>> why = whyformer.load("./my-tagger")
        >>> why("Anna lives in Paris", position="Paris").save("why.html")
        PosixPath('why.html')
    """

    kind, takes = "tags", "text"

    def record(self, inputs: Any, *, progress: bool = False) -> RecordedTags:
        return RecordedTags(self, *self.read(self.one(inputs)))

    def tags(self, text: str) -> list[Tag]:
        """Every word with its tag, which is that of its first piece."""
        return self.record(text).tags()


class RecordedTags(RecordedText):
    """A text whose words a model has tagged."""

    def tags(self) -> list[Tag]:
        shares = self.logits[0].softmax(-1)
        found = []
        for word in words_of(self.pieces):
            best = int(shares[word.pieces[0]].argmax())
            found.append(Tag(word.text, self._label(best), float(shares[word.pieces[0], best])))
        return found

    @property
    def places(self) -> list[str]:
        return [word.text for word in words_of(self.pieces)]

    def likeliest(self, count: int, position: Any = None) -> list[int]:
        place = self._word(position).pieces[0]
        return self.logits[0, place].argsort(descending=True)[:count].tolist()

    def _word(self, position: int | str | None) -> Word:
        return self._surest() if position is None else self.find_word(position)

    def _explain(self, target: Any, ask: Ask, position: int | str | None = None) -> Explanation:
        word = self._word(position)
        place = word.pieces[0]
        several = isinstance(target, list)
        targets = list(target[0]) if several else [target]
        labels, count = self.pipeline.labels, self.logits.shape[-1]
        classes = [
            int(self.logits[0, place].argmax())
            if item is None
            else class_index(item, count, labels)
            for item in targets
        ]
        asked = [(place, index) for index in classes]
        found = ask(self._recording, [asked] if several else asked[0])
        words = tuple(f"{self._label(index)} on {word.text!r}" for index in classes)
        return replace(found, asked=words)

    def _surest(self) -> Word:
        """The surest word whose tag says something."""
        words = words_of(self.pieces)
        tags = self.tags()
        telling = [i for i, tag in enumerate(tags) if tag.tag != OUTSIDE] or range(len(tags))
        return words[max(telling, key=lambda i: tags[i].probability)]

    def _label(self, index: int) -> str:
        labels = self.pipeline.labels
        return labels[index] if labels else str(index)
