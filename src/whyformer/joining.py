"""Answers of several samples or targets, joined to those of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from whyformer.explanation import Blocks
from whyformer.methods import Method
from whyformer.methods.question import Answer, Question
from whyformer.targets import ResolvedTarget


def only(seed: Tensor, sample: int) -> Tensor:
    kept = torch.zeros_like(seed)
    kept[sample] = seed[sample]
    return kept


def one_each(answers: Sequence[Answer]) -> Answer:
    """Every sample's own answer, from answers that were asked for one sample each.

    An input that all samples share is explained for each of them.
    """

    def join(parts: Sequence[Tensor]) -> Tensor:
        return torch.stack([part[i] for i, part in enumerate(parts)])

    matrices = [a.matrix for a in answers if a.matrix is not None]
    reached = [a.input_relevance for a in answers if a.input_relevance is not None]
    parts = map(join, zip(*(a.parts for a in answers), strict=True))
    found = Answer.of(parts, join(reached) if reached else None)
    matrix = join(matrices) if matrices else None
    return replace(found, matrix=matrix, cells=answers[0].cells)


def stack(parts: list[Tensor], asked: ResolvedTarget) -> Tensor:
    return torch.stack(parts, 1) if asked.several else parts[0]


def stack_present(parts: Sequence[Tensor | None], asked: ResolvedTarget) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return stack(present, asked) if present else None


def blocks_of(method: Method, questions: list[Question], asked: ResolvedTarget) -> Blocks:
    def gather(maps: list[list[Tensor]]) -> list[Tensor]:
        return [stack(list(block), asked) for block in zip(*maps, strict=True)]

    if not method.class_specific:
        return Blocks(questions[0].attention, None, None)
    return Blocks(
        questions[0].attention,
        gather([question.gradients() for question in questions]),
        gather([question.relevances() for question in questions]),
    )
