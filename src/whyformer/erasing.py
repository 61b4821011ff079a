"""An input without some of its patches or words: what ``occlusion`` takes away, several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whyformer.errors import ModelError
from whyformer.methods.masking import Masked
from whyformer.words import words_of

if TYPE_CHECKING:
    from whyformer.recording import Recording


def units_of(recording: Recording) -> list[list[int]]:
    """The tokens of every patch, row by row, or of every word; none where they cannot go."""
    if recording.trace.batch > 1 or len(recording.sites) > 1 or not varies(recording):
        return []
    if recording.tokens.kind == "image":
        return [[i] for i in range(recording.tokens.content.shape[1])[recording.tokens.patches]]
    pieces = (recording.pieces or [[]])[0]
    fitting = len(pieces) == recording.tokens.content.shape[1]
    return [list(word.pieces) for word in words_of(pieces)] if fitting else []


def varies(recording: Recording) -> bool:
    """Whether the forward can be run again with another input."""
    try:
        return recording.forward.root is not None
    except ModelError:
        return False


def output_without(recording: Recording, gone: Tensor) -> Tensor:
    """The output without the tokens in ``gone``, (batch, tokens).

    Their pixels or embeddings are zero, in the model's own units; their places stay.
    """
    with torch.inference_mode(False), torch.no_grad():
        masked = Masked(recording, "erasing", 0.0)
        return masked.forward(masked.without(gone), *masked.forward.sides)
