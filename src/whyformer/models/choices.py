"""Multiple choice: why this ending rather than the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from whyformer.errors import InputError
from whyformer.models.placed import OneText
from whyformer.models.texts import RecordedTexts, TextInput, as_texts, check_text
from whyformer.words import Piece


class ChoicesPipeline(OneText):
    """A model that chooses between endings of a text, with its own tokenizer.

    ``text`` are the choices. They are the classes; ``target`` is one of them, or its number, by
    default the model's own. All choices are shown, each behind the text: what it takes to see why
    one of them was *not* chosen.

    Examples:
        >>> why = whyformer.load("./my-chooser")
        >>> why("It rained.", text=["The street is wet.", "The street is dry."]).save("why.png")
        PosixPath('why.png')
    """

    kind, takes, beside = "choices", "text", ("text",)
    needs: ClassVar[Mapping[str, str]] = {
        "text": "chooses between endings of a text; give two or more as text=[...], on the command "
        "line each with --text"
    }

    def record(
        self, inputs: Any, *, text: Sequence[str] = (), progress: bool = False
    ) -> RecordedTexts:
        choices = as_texts(text)
        self.check_beside(["text"] if len(choices) > 1 else [])
        start = self.one(inputs)
        if not isinstance(start, str):
            raise InputError("a pair was given; give one text, and its endings as text=[...]")
        for choice in choices:
            check_text(choice)
        pairs: list[TextInput] = [(start, choice) for choice in choices]
        encoding = self._encode(pairs, padding=True, return_tensors="pt", verbose=False)
        self.check_length(encoding["input_ids"].shape[-1])
        pieces = self.pieces(encoding, pairs)
        hidden = [row.special_tokens_mask for row in encoding.encodings]
        batch = {key: value.unsqueeze(0) for key, value in encoding.items()}
        batch["special_tokens_mask"] = encoding["input_ids"].new_tensor([hidden])
        recording = self.explainer.record(batch)
        recording.pieces, recording.labels = [one_text(pieces)], choices
        return RecordedTexts(self, recording, labels=choices)


def one_text(texts: list[list[Piece]]) -> list[Piece]:
    """Several texts as one, each on lines of its own; words go on counting."""
    found: list[Piece] = []
    first = 0
    for number, pieces in enumerate(texts):
        words = [piece.word for piece in pieces if piece.word is not None]
        for i, piece in enumerate(pieces):
            word = None if piece.word is None else piece.word + first
            fresh = number > 0 and piece.word is not None and piece.word == words[0]
            starts = fresh and all(p.word is None for p in pieces[:i])
            found.append(replace(piece, word=word, gap="\n\n" if starts else piece.gap))
        first += max(words, default=-1) + 1
    return found
