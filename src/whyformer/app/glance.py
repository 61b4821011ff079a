"""All heads of all blocks at a glance: the row that is asked about, of one map."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.app.blocks import count_blocks, map_of, pooled, with_blocks
from whyformer.app.questions import HeadQuestion
from whyformer.app.recordings import KeptRecording
from whyformer.app.worker import Check
from whyformer.render.colour import colour_stops, scale
from whyformer.render.sheets import scores_of
from whyformer.words import Word, words_of

#: words, and patches, that a thumbnail shows
MOST_WORDS = 512
MOST_PATCHES = 1024


def to_heads(question: HeadQuestion, reading: KeptRecording, check: Check) -> dict[str, Any]:
    """A thumbnail for the mean of every block's heads, then for each head.

    Its values, row by row, are bytes: low + byte / 255 * (high - low).
    """
    explanation = with_blocks(question, reading)
    part = explanation.parts[0]
    pieces = part.pieces[0] if part.pieces and part.picture is None else []
    words = words_of(pieces)
    sinks = [i for i, piece in enumerate(pieces) if piece.sink]
    blocks = []
    for block in range(count_blocks(explanation)):
        check()
        heads = pooled(explanation, map_of(explanation, block, question.map))
        every = torch.cat([heads.mean(0, keepdim=True), heads])
        every[:, sinks] = 0
        shown = torch.from_numpy(np.stack([scores_of(part, row) for row in every]))
        units = of_words(words, shown) if words else smaller(shown)
        blocks.append(packed(units.flatten(1)))
    note = f"The text has {len(words):,} words: the first {MOST_WORDS} are drawn."
    return {
        "input": reading.key,
        "grid": None if words else list(units.shape[1:]),
        "heat": colour_stops(scale()),
        "words": [word.text for word in words[:MOST_WORDS]],
        "note": note if len(words) > MOST_WORDS else "",
        "blocks": blocks,
    }


def smaller(maps: Tensor) -> Tensor:
    """(heads, height, width) with at most so many patches."""
    height, width = maps.shape[1:]
    share = min(1.0, (MOST_PATCHES / (height * width)) ** 0.5)
    return F.adaptive_avg_pool2d(maps, (max(1, int(height * share)), max(1, int(width * share))))


def of_words(words: list[Word], rows: Tensor) -> Tensor:
    """(heads, tokens) to (heads, words), a word's value being its strongest piece's."""
    return torch.stack([rows[:, list(word.pieces)].amax(1) for word in words[:MOST_WORDS]], 1)


def packed(values: Tensor) -> dict[str, Any]:
    low, high = values.amin(1), values.amax(1)
    shares = (values - low[:, None]) / torch.where(high > low, high - low, 1)[:, None]
    data = (shares * 255).round().to(torch.uint8).numpy().tobytes()
    return {"low": low.tolist(), "high": high.tolist(), "data": b64encode(data).decode("ascii")}
