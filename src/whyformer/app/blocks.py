"""Inside the model: attention, gradient, relevance and their product, block by block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from whyformer.app.answers import chosen_targets, detailed, place_of
from whyformer.app.questions import BlockQuestion
from whyformer.app.shelf import Reading
from whyformer.app.worker import Check
from whyformer.errors import InputError
from whyformer.explanation import Explanation
from whyformer.methods import DEFAULT_METHOD
from whyformer.render.sheet import View
from whyformer.render.sheets import make_sheet


def to_blocks(question: BlockQuestion, reading: Reading, check: Check) -> dict[str, Any]:
    """A document whose methods are the four maps of one block, with how many blocks there are."""
    recorded = reading.recorded
    if recorded.pipeline.takes not in ("image", "text"):
        raise InputError("the inside is shown of models that read one image or one text")
    target, place = chosen_targets(question, recorded)[0], place_of(question, recorded)
    explanation = recorded.explain(
        target, DEFAULT_METHOD, question.preset, keep_blocks=True, **place
    )
    check()
    if explanation.rows is None or len(explanation.parts) > 1:
        raise InputError("the inside is shown of models that read one image or one text")
    maps = maps_of(explanation, question.block)
    blocks, heads = len(explanation.blocks.attention), maps["attention"].shape[0]  # type: ignore[union-attr]
    if question.head is not None and question.head >= heads:
        raise InputError(f"head {question.head} of a block with {heads}; count from 0")
    tokens = explanation.relevance.shape[-1]
    if maps["attention"].shape[-2:] != (tokens, tokens):
        raise InputError(
            f"block {question.block} attends among other tokens than the input's {tokens}; choose "
            "another block"
        )
    sheet = make_sheet(explanation, title=reading.title, model=recorded.pipeline.name)
    views = []
    for name, of_heads in maps.items():
        matrix = of_heads.mean(0) if question.head is None else of_heads[question.head]
        scores, rows = shown(explanation, matrix)
        views.append(View(name, sheet.views[0].asked, scores, rows))
    document = detailed(replace(sheet, views=views), reading)
    return {**document, "input": reading.key, "blocks": blocks, "heads": heads}


def maps_of(explanation: Explanation, block: int) -> dict[str, Tensor]:
    """(heads, tokens, tokens) each; the product is what the paper's method averages (Eq. 13)."""
    blocks = explanation.blocks
    assert blocks is not None
    assert blocks.gradient is not None
    assert blocks.relevance is not None
    if block >= len(blocks.attention):
        raise InputError(f"block {block} of a model with {len(blocks.attention)}; count from 0")
    gradient, relevance = blocks.gradient[block][0], blocks.relevance[block][0]
    return {
        "attention": blocks.attention[block][0],
        "gradient": gradient,
        "relevance": relevance,
        "product": (gradient * relevance).clamp(min=0),
    }


def shown(explanation: Explanation, matrix: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The pooled token's row, and the rows of all that can be pointed at."""
    tokens = explanation.tokens
    assert explanation.rows is not None
    pooled = explanation.rows[0].to(matrix) @ matrix
    if tokens.grid is None:
        return pooled.double().cpu().numpy(), matrix.float().cpu().numpy()
    patches = matrix[tokens.patches, tokens.patches]
    return tokens.to_map(pooled).double().cpu().numpy(), patches.float().cpu().numpy()
