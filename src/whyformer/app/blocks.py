"""Inside the model: attention, gradient, relevance and their product, block by block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from whyformer.app.answers import chosen_targets, detailed, place_of
from whyformer.app.questions import BlockQuestion, Question
from whyformer.app.recordings import KeptRecording
from whyformer.app.worker import Check
from whyformer.errors import InputError
from whyformer.explanation import Explanation
from whyformer.methods import DEFAULT_METHOD
from whyformer.render.sheet import View
from whyformer.render.sheets import make_sheet, rows_of, scores_of

#: what is shown of a block; the product is what the paper's method averages (Eq. 13)
MAPS = ("attention", "gradient", "relevance", "product")


def to_blocks(question: BlockQuestion, reading: KeptRecording, check: Check) -> dict[str, Any]:
    """A document whose methods are the four maps of one block, with how many blocks there are."""
    explanation = with_blocks(question, reading)
    check()
    maps = {name: map_of(explanation, question.block, name) for name in MAPS}
    blocks, heads = count_blocks(explanation), len(maps["attention"])
    if question.head is not None and question.head >= heads:
        raise InputError(f"head {question.head} of a block with {heads}; count from 0")
    sheet = make_sheet(explanation, title=reading.title, model=reading.recorded.pipeline.name)
    part, views = explanation.parts[0], []
    for name, of_heads in maps.items():
        matrix = of_heads.mean(0) if question.head is None else of_heads[question.head]
        scores = scores_of(part, pooled(explanation, matrix))
        views.append(View(name, sheet.views[0].asked, scores, rows_of(part, matrix)))
    document = detailed(replace(sheet, views=views), reading)
    return {**document, "input": reading.key, "blocks": blocks, "heads": heads}


def with_blocks(question: Question, reading: KeptRecording) -> Explanation:
    """The explanation of the first target, with what every block held."""
    recorded = reading.recorded
    target, place = chosen_targets(question, recorded)[0], place_of(question, recorded)
    options: dict[str, Any] = {"keep_blocks": True, **place}
    explanation = recorded.explain(target, DEFAULT_METHOD, question.preset, **options)
    if explanation.rows is None or explanation.blocks is None or len(explanation.parts) > 1:
        raise InputError("the inside is shown of models that read one input")
    return explanation


def count_blocks(explanation: Explanation) -> int:
    assert explanation.blocks is not None
    return len(explanation.blocks.attention)


def map_of(explanation: Explanation, block: int, name: str) -> Tensor:
    """(heads, tokens, tokens) of one block."""
    if block >= count_blocks(explanation):
        raise InputError(f"block {block} of a model with {count_blocks(explanation)}; count from 0")
    if name == "product":
        gradient, relevance = (map_of(explanation, block, n) for n in ("gradient", "relevance"))
        return (gradient * relevance).clamp(min=0)
    found: Tensor = getattr(explanation.blocks, name)[block][0]
    assert explanation.rows is not None
    if found.shape[-2:] != (explanation.rows.shape[-1],) * 2:
        raise InputError(
            f"block {block} attends from {found.shape[-2]} to {found.shape[-1]} places, and the "
            f"input has {explanation.rows.shape[-1]} tokens: its maps cannot be laid over the input"
        )
    return found


def pooled(explanation: Explanation, maps: Tensor) -> Tensor:
    """The pooled token's row of maps (..., tokens, tokens)."""
    assert explanation.rows is not None
    return explanation.rows[0].to(maps) @ maps
