"""Multiple choice: why this ending rather than the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from whyformer.errors import InputError
from whyformer.explainer import Explainer
from whyformer.models.hugging_face import longest_text
from whyformer.models.placed import OneText
from whyformer.models.texts import RecordedTexts, check_text
from whyformer.models.vocabulary import load_tokenizer
from whyformer.words import Piece


def load_choices(folder: Path, name: str, explainer: Explainer) -> ChoicesPipeline:
    tokenizer = load_tokenizer(folder, name)
    return ChoicesPipeline(name, explainer, tokenizer, longest_text(explainer.model, tokenizer))


class ChoicesPipeline(OneText):
    """A model that chooses between endings of a text, with its own tokenizer.

    Reads (text, [choice, choice, ...]). Classes are the choices; ``target`` is one of them, or its
    number, by default the model's own. All choices are shown, each behind the text: what it takes
    to see why one of them was *not* chosen.

    Examples:
        >>> why = whyformer.load("./my-chooser")
        >>> why(("It rained.", ["The street is wet.", "The street is dry."])).show()
    """

    kind, takes = "choices", "text"

    def record(self, inputs: Any, *, progress: bool = False) -> RecordedTexts:
        if (
            not isinstance(inputs, tuple)
            or len(inputs) != 2
            or not isinstance(inputs[1], list | tuple)
            or len(inputs[1]) < 2
        ):
            raise InputError(
                f"{self.name} chooses between endings of a text; give (text, [choice, choice]), on "
                "the command line each choice with --text"
            )
        text, choices = inputs[0], [*inputs[1]]
        for choice in choices:
            check_text((text, choice))
        pairs = [(text, choice) for choice in choices]
        encoding = self._encode(pairs, padding=True, return_tensors="pt", verbose=False)
        self.check_length(encoding["input_ids"].shape[-1])
        pieces = self.pieces(encoding, pairs)
        hidden = [row.special_tokens_mask for row in encoding.encodings]
        batch = {key: value.unsqueeze(0) for key, value in encoding.items()}
        batch["special_tokens_mask"] = encoding["input_ids"].new_tensor([hidden])
        recording = self.explainer.record(batch)
        recording.pieces, recording.labels = [one_text(pieces)], choices
        return RecordedTexts(self, recording)


def one_text(texts: list[list[Piece]]) -> list[Piece]:
    """Several texts as one, each on lines of its own; words go on counting."""
    found: list[Piece] = []
    first = 0
    for pieces in texts:
        words = [piece.word for piece in pieces if piece.word is not None]
        for i, piece in enumerate(pieces):
            word = None if piece.word is None else piece.word + first
            fresh = piece.word is not None and piece.word == words[0] and found
            starts = fresh and all(p.word is None for p in pieces[:i])
            found.append(replace(piece, word=word, gap="\n\n" if starts else piece.gap))
        first += max(words, default=-1) + 1
    return found
