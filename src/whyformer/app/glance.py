"""All heads of all blocks at a glance: the row that is asked about, of one map."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.app.blocks import count_blocks, map_of, pooled, with_blocks
from whyformer.app.questions import HeadQuestion
from whyformer.app.shelf import Reading
from whyformer.app.worker import Check
from whyformer.explanation import Explanation
from whyformer.render.colour import colour_stops, scale
from whyformer.words import Word, words_of

#: words, and patches along a side, that a thumbnail shows
MOST_WORDS = 512
MOST_PATCHES = 32


def to_heads(question: HeadQuestion, reading: Reading, check: Check) -> dict[str, Any]:
    """A thumbnail for the mean of every block's heads, then for each head.

    Its values, row by row, are signed bytes: byte / 127 * scale.
    """
    _, explanation = with_blocks(question, reading)
    words = words_of(explanation.pieces[0]) if explanation.pieces else []
    rows = []
    for block in range(count_blocks(explanation)):
        check()
        heads = pooled(explanation, map_of(explanation, block, question.map))
        every = torch.cat([heads.mean(0, keepdim=True), heads])
        units = patches(explanation, every) if explanation.grid else of_words(words, every)
        rows.append(packed(units.flatten(1)))
    note = f"The text has {len(words):,} words: the first {MOST_WORDS} are drawn."
    return {
        "input": reading.key,
        "grid": list(units.shape[1:]) if explanation.grid else None,
        "heat": colour_stops(scale()),
        "words": [word.text for word in words[:MOST_WORDS]],
        "note": note if len(words) > MOST_WORDS else "",
        "blocks": rows,
    }


def patches(explanation: Explanation, rows: Tensor) -> Tensor:
    """(heads, tokens) to (heads, height, width), at most so large."""
    maps = explanation.tokens.to_map(rows)
    height, width = (min(side, MOST_PATCHES) for side in maps.shape[-2:])
    return F.adaptive_avg_pool2d(maps.float(), (height, width))


def of_words(words: list[Word], rows: Tensor) -> Tensor:
    """(heads, tokens) to (heads, words), a word's value being its strongest piece's."""
    return torch.stack([rows[:, list(word.pieces)].amax(1) for word in words[:MOST_WORDS]], 1)


def packed(values: Tensor) -> dict[str, Any]:
    tops = values.abs().amax(1).double().cpu()
    shares = values.double().cpu() / torch.where(tops > 0, tops, 1)[:, None]
    data = (shares * 127).round().to(torch.int8).numpy().tobytes()
    return {"scale": tops.tolist(), "data": b64encode(data).decode("ascii")}
