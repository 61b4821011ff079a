"""What models that answer at a place of a text share: one text, read at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.models.hugging_face import longest_text
from whyformer.models.pipeline import Pipeline
from whyformer.models.recorded import RecordedInput
from whyformer.models.texts import TextInput, TextPipeline, check_text
from whyformer.models.vocabulary import load_tokenizer
from whyformer.recording import Recording
from whyformer.words import Piece, Word, words_of


class OneText(TextPipeline):
    """Reads one text, or one pair, that the model takes at once."""

    @classmethod
    def load(cls, folder: Path, name: str, explainer: Explainer) -> Self:
        tokenizer = load_tokenizer(folder, name)
        explainer.problem = cls.kind
        return cls(name, explainer, tokenizer, longest_text(explainer.model, tokenizer))

    def one(self, inputs: Any) -> TextInput:
        """The text that was given; several are asked about one at a time."""
        texts = inputs if isinstance(inputs, list) else [inputs]
        if len(texts) != 1:
            raise InputError(f"{len(texts)} texts were given; {self.name} is asked about one")
        check_text(texts[0])
        return texts[0]

    def read(self, text: TextInput) -> tuple[Recording, Any]:
        """The forward of a text, with its pieces as they are written there, and its encoding."""
        encoding = self._encode([text], return_tensors="pt", verbose=False)
        self.check_length(encoding["input_ids"].shape[-1])
        recording = self.explainer.record(encoding)
        recording.pieces = self.pieces(encoding, [text])
        return recording, encoding.encodings[0]

    def check_length(self, length: int) -> None:
        if length > self.longest:
            raise InputError(
                f"the text has {length} pieces, more than the {self.longest} that {self.name} "
                "reads at once; give a shorter one"
            )


class RecordedText(RecordedInput):
    """One text that a model has read, and how its tokenizer encoded it."""

    def __init__(self, pipeline: Pipeline, recording: Recording, encoding: Any) -> None:
        super().__init__(pipeline, recording)
        self._encoding = encoding

    @property
    def pieces(self) -> list[Piece]:
        assert self._recording.pieces is not None
        return self._recording.pieces[0]

    def find_word(self, given: int | str) -> Word:
        """A word by its number or as written; one that stands there twice needs its number."""
        words = words_of(self.pieces)
        numbered = ", ".join(f"{i} {word.text!r}" for i, word in enumerate(words[:30]))
        if isinstance(given, int) or given.lstrip("-").isdigit():
            number = int(given)
            if not -len(words) <= number < len(words):
                raise InputError(f"word {number} of a text with {len(words)}; there are {numbered}")
            return words[number]
        found = [i for i, word in enumerate(words) if word.text == given]
        if len(found) == 1:
            return words[found[0]]
        if found:
            places = ", ".join(map(str, found))
            raise InputError(f"the word {given!r} stands at {places}; give one of these numbers")
        raise InputError(f"no word {given!r} in the text; there are {numbered}")
