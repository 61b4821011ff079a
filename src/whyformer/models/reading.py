"""Texts that a model reads whole: checked, encoded, and their pieces told apart again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import InputError
from whyformer.models.texts import check_text
from whyformer.models.vocabulary import tokenizer_settings
from whyformer.words import BETWEEN_TEXTS, Piece, pieces_of, shorten, unknown_note


@dataclass(frozen=True)
class ReadTexts:
    """Texts as a model reads them.

    ``inputs`` go to the forward, with a ``special_tokens_mask``; ``pieces`` are every text's, with
    the padding behind them; ``lengths`` say how many of them are no padding; ``notes`` are what a
    reader should know.
    """

    inputs: dict[str, Tensor]
    pieces: list[list[Piece]]
    lengths: list[int]
    notes: list[str]

    def together(self, numbers: Sequence[int]) -> tuple[list[int], list[Piece]]:
        """Some texts as one, a paragraph each: where its pieces stand in the row of all texts."""
        places: list[int] = []
        pieces: list[Piece] = []
        words = 0
        for number in numbers:
            own = self.pieces[number][: self.lengths[number]]
            places += range(start := number * len(self.pieces[number]), start + len(own))
            first = next((i for i, piece in enumerate(own) if piece.word is not None), None)
            for i, piece in enumerate(own):
                gap = BETWEEN_TEXTS + piece.gap if i == first and words else piece.gap
                word = None if piece.word is None else words + piece.word
                pieces.append(replace(piece, gap=gap, word=word))
            words += 1 + max((piece.word for piece in own if piece.word is not None), default=-1)
        return places, pieces


class TextReader:
    """A tokenizer, and the most pieces that the model takes, special tokens included.

    ``padded``: the model was trained on texts of that very length and looks at the padding.
    """

    takes = "text"

    def __init__(self, tokenizer: Any, longest: int, padded: bool = False) -> None:
        self.tokenizer, self.longest, self.padded = tokenizer, longest, padded

    @property
    def reads(self) -> dict[str, Any]:
        return {"longest": self.longest}

    def _prepared_example(self) -> bytes:
        """All that decides how a text is encoded."""
        return tokenizer_settings(self.tokenizer)

    def read(self, texts: Sequence[Any]) -> ReadTexts:
        for text in texts:
            check_text(text)
        lengths = [len(ids) for ids in self.tokenizer(list(texts), verbose=False)["input_ids"]]
        for text, length in zip(texts, lengths, strict=True):
            if length > self.longest:
                raise InputError(
                    f"the text {shorten(text)!r} has {length} pieces, more than the "
                    f"model's {self.longest}; shorten it"
                )
        room = {"padding": "max_length", "max_length": self.longest} if self.padded else {}
        encoding = self.tokenizer(
            list(texts), **{"padding": len(texts) > 1, "return_tensors": "pt", **room}
        )
        special = torch.tensor([e.special_tokens_mask for e in encoding.encodings])
        inputs = {**encoding, "special_tokens_mask": special}
        pieces = pieces_of(encoding, len(texts), texts) or []
        notes = unknown_note(pieces)
        if self.padded:
            inputs.pop("attention_mask", None)
            notes.append("the model reads the padding behind a text as well; it is not shown")
        return ReadTexts(inputs, pieces, lengths, notes)
