"""Text classifiers: from sentences, pairs and long texts to what the model reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from whyformer.erasing import units_of
from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.files import FILE, FILE_ENDINGS, what_is
from whyformer.models.pipeline import TokenPipeline
from whyformer.models.recorded import Recorded, RecordedInput
from whyformer.models.windows import RecordedWindows, Windows
from whyformer.words import Piece, pieces_of

#: how much of a window its neighbour repeats
OVERLAP = 0.25

TextInput = str | tuple[str, str]


class TextPipeline(TokenPipeline):
    """A text classifier with its own tokenizer.

    Reads a text, a pair of texts as a tuple, or a list of either. A text longer than the model
    takes is read in windows that overlap by a quarter: their logits are averaged, and so is the
    relevance of a piece that several windows saw.
    """

    kind = takes = "text"
    longest: int

    def __init__(self, name: str, explainer: Explainer, tokenizer: Any, longest: int) -> None:
        super().__init__(name, explainer)
        self.tokenizer = tokenizer
        self.longest = longest

    def record(
        self, inputs: TextInput | Sequence[TextInput], *, progress: bool = False
    ) -> Recorded:
        """Read texts and run the model's forward; ``progress`` shows a bar over many windows."""
        texts: list[Any] = list(inputs) if isinstance(inputs, list) else [inputs]
        if not texts:
            raise InputError("the list of texts is empty; give at least one")
        for text in texts:
            check_text(text)
        encoding = self._encode(texts, verbose=False)
        lengths = [len(pieces) for pieces in encoding["input_ids"]]
        if max(lengths) <= self.longest:
            padded = self._encode(texts, padding=True, return_tensors="pt")
            recording = self.explainer.record(padded)
            recording.pieces = self.pieces(padded, texts)
            return RecordedTexts(self, recording)
        if len(texts) > 1:
            raise InputError(
                f"text {lengths.index(max(lengths))} has {max(lengths)} pieces, more than the "
                f"model's {self.longest}; texts that need windows are explained one at a time"
            )
        return RecordedWindows(self, self._windows(texts[0]), progress)

    def pieces(self, encoding: Any, texts: Sequence[TextInput]) -> list[list[Piece]]:
        """Every text's pieces as they are written there."""
        pieces = pieces_of(encoding, len(texts), texts, (self.tokenizer.unk_token,))
        assert pieces is not None
        return pieces

    def batches(self, text: TextInput) -> list[dict[str, Tensor]]:
        """What the model reads of a text: all of it at once, or some windows at a time."""
        if len(self._encode([text], verbose=False)["input_ids"][0]) <= self.longest:
            return [dict(self._encode([text], return_tensors="pt"))]
        return [inputs for inputs, _ in self._windows(text).batches()]

    def reading(self, longest: int) -> TextPipeline:
        """The same model, read fewer pieces at once than it could take."""
        fewest = self.tokenizer.num_special_tokens_to_add(pair=False) + 1
        if not fewest <= longest <= self.longest:
            raise InputError(
                f"longest is {longest}; expected {fewest} to {self.longest}, what {self.name} reads"
            )
        shorter = TextPipeline(self.name, self.explainer, self.tokenizer, longest)
        shorter.source = self.source
        return shorter

    def fitting(self, tokens: Sequence[str], from_end: bool = False) -> int:
        """How many of a text's tokens the model reads at once, from its start or its end."""
        encoding = self.tokenizer(" ".join(tokens), add_special_tokens=False, verbose=False)
        offsets = encoding.encodings[0].offsets
        room = self.longest - self.tokenizer.num_special_tokens_to_add(pair=False)
        if len(offsets) <= room:
            return len(tokens)
        ends = np.cumsum([len(token) + 1 for token in tokens]) - 1
        if from_end:
            starts = ends - [len(token) for token in tokens]
            return int((starts >= offsets[-room][0]).sum())
        return int((ends <= offsets[room - 1][1]).sum())

    def _encode(self, texts: Sequence[TextInput], **options: Any) -> Any:
        pairs = {isinstance(text, tuple) for text in texts}
        if len(pairs) > 1:
            raise InputError("single texts and pairs are mixed; give either, not both at once")
        if pairs == {True}:
            first, second = zip(*texts, strict=True)
            return self.tokenizer(list(first), list(second), **options)
        return self.tokenizer(list(texts), **options)

    def _windows(self, text: TextInput) -> Windows:
        """The longer part in overlapping windows, each beside the whole of the shorter part."""
        parts = (text,) if isinstance(text, str) else text
        lengths = [
            len(self.tokenizer(part, add_special_tokens=False, verbose=False)["input_ids"])
            for part in parts
        ]
        cut = max(range(len(parts)), key=lengths.__getitem__)
        special = self.tokenizer.num_special_tokens_to_add(pair=len(parts) == 2)
        room = self.longest - special - (sum(lengths) - lengths[cut])
        if room < (16 if len(parts) == 2 else 1):
            raise InputError(
                f"the text has {' and '.join(map(str, lengths))} pieces, too many for a model that "
                f"reads {self.longest}; shorten {'one of the two' if len(parts) == 2 else 'it'}"
            )
        overlap = int(room * OVERLAP)
        side = self.tokenizer.truncation_side
        self.tokenizer.truncation_side = "right"
        try:
            encoding = self._encode(
                [text],
                truncation=("only_first", "only_second")[cut],
                max_length=self.longest,
                stride=overlap,
                return_overflowing_tokens=True,
                padding=True,
                return_tensors="pt",
            )
        finally:
            self.tokenizer.truncation_side = side
        encoding.pop("overflow_to_sample_mapping", None)
        whole = self._encode([text], add_special_tokens=False, verbose=False)
        return Windows(text, whole, encoding, cut, room, overlap)


class RecordedTexts(RecordedInput):
    """Texts that a model has read, ready for questions."""

    @property
    def units(self) -> list[list[int]]:
        return units_of(self._recording)


def check_text(text: Any) -> None:
    """A text, or a pair of texts, that holds something to explain."""
    parts = text if isinstance(text, tuple) and len(text) == 2 else (text,)
    if not all(isinstance(part, str) for part in parts):
        raise InputError(
            f"a text was expected, not {type(text).__name__}; give a string, a pair of strings as "
            "a tuple, or a list of either; for token ids use whyformer.Explainer"
        )
    if any("\ud800" <= letter <= "\udfff" for part in parts for letter in part):
        raise InputError("the text holds bytes that are not UTF-8")
    if not all(part.strip() for part in parts):
        raise InputError("the text is empty: there is nothing to explain")
    for part in parts:
        if Path(part).suffix.lower() in FILE_ENDINGS and what_is(Path(part)) == FILE:
            raise InputError(f"{part} is the name of a file here; a text was expected")


def as_texts(given: Any) -> list[Any]:
    """What may be one text or several."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Sequence):
        raise InputError(f"a text was expected, not {type(given).__name__}; give one, or a list")
    return list(given)
