"""The answer: how much every token spoke for the target."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.errors import InputError
from whyformer.tokens import Tokens


@dataclass(frozen=True)
class Blocks:
    """What a method worked with, a list over the blocks, input side first.

    Each is (batch, heads, tokens, tokens); with several targets (batch, targets, heads, ...).
    Methods that use no gradient or no relevance have None there.
    """

    attention: list[Tensor]
    gradient: list[Tensor] | None
    relevance: list[Tensor] | None


@dataclass(frozen=True)
class Explanation:
    """Relevance for a batch, with what it takes to read it.

    Several targets a sample put an axis behind the batch: (batch, targets, tokens).
    """

    relevance: Tensor
    logits: Tensor
    target: Tensor | None
    method: str
    preset: str
    tokens: Tokens = field(repr=False)
    input_relevance: Tensor | None = field(default=None, repr=False)
    matrix: Tensor | None = field(default=None, repr=False)
    blocks: Blocks | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    labels: list[str] | None = field(default=None, repr=False)
    pieces: list[list[str]] | None = field(default=None, repr=False)
    word_ids: list[list[int | None]] | None = field(default=None, repr=False)

    @property
    def content(self) -> Tensor:
        """(batch, tokens): the tokens that are actual input."""
        return self.tokens.content

    @property
    def grid(self) -> tuple[int, int] | None:
        """Height and width of an image's patch grid."""
        return self.tokens.grid

    def image_map(self, size: tuple[int, int] | None = None) -> Tensor:
        """The map of an image, upsampled to the input's size or another: (batch, height, width)."""
        patches = self.tokens.to_map(self.relevance)
        target = size or self.tokens.size
        assert target is not None
        flat = patches.reshape(-1, 1, *patches.shape[-2:])
        full = F.interpolate(flat, target, mode="bilinear", align_corners=False)
        return full.reshape(*patches.shape[:-2], *target)

    def words(self) -> list[list[tuple[str, float]]]:
        """Every sample's words with their scores, a word's being its pieces' highest.

        Needs inputs that came from a fast tokenizer; with several targets ask one at a time.
        """
        if self.pieces is None or self.word_ids is None:
            raise InputError(
                "words need the tokenizer's encoding: pass what the tokenizer returned as inputs"
            )
        if self.relevance.ndim != 2:
            raise InputError("words() reads one target; ask for the targets one at a time")
        return [
            merge_words(pieces, ids, scores)
            for pieces, ids, scores in zip(
                self.pieces, self.word_ids, self.relevance.tolist(), strict=True
            )
        ]

    def label(self, index: int) -> str:
        return self.labels[index] if self.labels else str(index)

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.relevance.shape)
        asked = "none" if self.target is None else self.target.tolist()
        return f"Explanation({self.method}, {self.preset}, relevance {shape}, target {asked})"


def merge_words(
    pieces: list[str], word_ids: list[int | None], scores: list[float]
) -> list[tuple[str, float]]:
    """Word pieces put together; a word's score is the highest of its pieces'."""
    words: list[tuple[str, float]] = []
    previous: int | None = None
    for piece, word, score in zip(pieces, word_ids, scores, strict=True):
        if word is None:
            previous = None
            continue
        text = piece.removeprefix("##").lstrip("Ġ▁")
        if word == previous:
            start, highest = words[-1]
            words[-1] = (start + text, max(highest, score))
        else:
            words.append((text, score))
        previous = word
    return words


def finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())
