"""From explanations to the sheets that are drawn: one for each input of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from whyformer.errors import InputError
from whyformer.explanation import Explanation, Part, Sound, as_probabilities
from whyformer.methods import get_method
from whyformer.render.sheet import ClassScore, Sheet, View, in_words

#: classes listed beside those that were asked about
TOP_CLASSES = 5
#: a model with more classes has not all of them in its files
MOST_CLASSES = 2000


def make_sheet(
    explanations: Explanation | Sequence[Explanation],
    sample: int = 0,
    *,
    title: str = "",
    model: str = "",
) -> Sheet:
    """Explanations of the same input, by any methods and for any classes, on one sheet.

    A model that reads several inputs has one sheet for each, on one scale.
    """
    given = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    if not given:
        raise InputError("there is no explanation to draw")
    first = given[0]
    if not -len(first) <= sample < len(first):
        raise InputError(f"sample {sample} of a batch of {len(first)}")
    sample %= len(first)
    if len({(e.tokens.kind, e.grid, e.content.shape, e.logits.shape) for e in given}) > 1:
        raise InputError("the explanations are of different inputs; draw one input at a time")
    numbers = [i for i, part in enumerate(first.parts) if part.drawable]
    if not numbers:
        raise InputError(
            "only images and texts can be drawn; for text pass what the tokenizer returned, or use "
            "whyformer.load"
        )
    asked = [(e.method, question) for e in given for question in _questions(e, sample)]
    questions = [question for _, question in asked]
    told = [(method, question and question.index) for method, question in asked]
    if len(set(told)) < len(told) or len({e.preset for e in given}) > 1:
        raise InputError(
            "two explanations are by the same method for the same class, or by different presets; "
            "draw them on sheets of their own"
        )
    shared = len(numbers) > 1 and first.one_scale
    grids = {e.parts[0].cells for e in given}
    fine = len(grids) == 1
    views = [[view for e in given for view in _views(e, sample, i, shared, fine)] for i in numbers]
    if shared:
        views = _on_one_scale(views)
    notes = list(dict.fromkeys(note for explanation in given for note in explanation.notes))
    if not fine:
        notes.append("maps of shifted grids are shown by the patches here, as the others")
    notes += [
        f"the input {part.name} is not drawn"
        for i, part in enumerate(first.parts)
        if i not in numbers
    ]
    sheets = [
        _sheet(first, sample, first.parts[i], own, questions, title, model)
        for i, own in zip(numbers, views, strict=True)
    ]
    if len(first) > 1:
        notes.append(f"sample {sample + 1} of {len(first)}")
    logits = first.logits_of(sample)
    everything: dict[str, Any] = {}
    if logits.ndim == 1 and len(logits) <= MOST_CLASSES:
        labels = [first.label(i) for i in range(len(logits))]
        everything = {"logits": logits.tolist(), "labels": labels}
    return replace(sheets[0], notes=notes, others=tuple(sheets[1:]), **everything)


def _sheet(
    explanation: Explanation,
    sample: int,
    part: Part,
    views: list[View],
    questions: Sequence[ClassScore | None],
    title: str,
    model: str,
) -> Sheet:
    kind = {"spectrogram": "sound", "sequence": "sound"}.get(part.tokens.kind, part.tokens.kind)
    sound = part.sound and Sound(part.sound.samples[sample], part.sound.rate)
    return Sheet(
        kind=kind,
        title=title,
        model=model,
        preset=explanation.preset,
        problem=explanation.problem,
        classes=_classes(explanation, sample, [asked for asked in questions if asked]),
        views=views,
        notes=[],
        image=None if part.picture is None else picture_of(part.picture[sample]),
        crop=part.crops[sample] if part.crops else None,
        pieces=part.pieces[sample] if part.pieces and part.picture is None else None,
        sound=sound,
        frames=part.tokens.volume[0] if part.tokens.volume else 1,
        part=(part.title or part.name) if len(explanation.parts) > 1 else "",
    )


def picture_of(pixels: Tensor) -> Image.Image:
    """The image as the model saw it; pixels beyond 0 to 1 are stretched to fit."""
    pixels = pixels.float().cpu()
    if pixels.min() < 0 or pixels.max() > 1:
        pixels = (pixels - pixels.min()) / (pixels.max() - pixels.min()).clamp(min=1e-12)
    if pixels.shape[0] not in (1, 3):
        pixels = pixels.mean(0, keepdim=True)
    array = (pixels.expand(3, -1, -1).permute(1, 2, 0) * 255).round().byte().numpy()
    return Image.fromarray(array)


def class_score(explanation: Explanation, sample: int, index: int, target: int = 0) -> ClassScore:
    """A class with what the model gave it, where the target was asked."""
    logits = explanation.logits_of(sample, target)
    shares = as_probabilities(logits, explanation.problem)
    share = None if shares is None else float(shares[index])
    return ClassScore(index, explanation.label(index), float(logits[index]), share)


def _questions(explanation: Explanation, sample: int) -> list[ClassScore | None]:
    """What was asked, target by target; None where a method does not look at it."""
    targets = explanation.relevance.shape[1] if explanation.relevance.ndim == 3 else 1
    if explanation.target is not None:
        chosen = explanation.target[sample].reshape(-1).tolist()
        scores = [class_score(explanation, sample, int(c), i) for i, c in enumerate(chosen)]
        named = zip(scores, explanation.asked, strict=False)
        scores = [replace(score, label=words) for score, words in named] or scores
        if several_places(explanation, sample):  # where a word may stand twice
            return [replace(score, index=-1 - i) for i, score in enumerate(scores)]
        return [*scores]
    if not get_method(explanation.method).class_specific:
        return [None] * targets
    words = explanation.asked or ("the function",) * targets
    return [in_words(i, text) for i, text in enumerate(words)]


def several_places(explanation: Explanation, sample: int) -> bool:
    """Whether the questions are about several rows of the output."""
    return explanation.position is not None and len(explanation.position[sample].unique()) > 1


def _views(
    explanation: Explanation, sample: int, number: int, shared: bool, fine: bool
) -> list[View]:
    """The views of one part; with its strongest score, where parts have a ``shared`` scale.

    Rows of single tokens are known of the main part alone. ``fine``: in cells that are finer than
    the patches, where the part has some.
    """
    part = explanation.parts[number]
    several = part.relevance.ndim == 3
    relevances = part.relevance[sample] if several else part.relevance[sample : sample + 1]
    drawn = [scores_of(part, scores) for scores in relevances]
    if fine and part.cells is not None:
        maps = part.map[sample].double().cpu().numpy()
        drawn = list(maps) if several else [maps]
    matrices: Sequence[Tensor | None] = [None] * len(relevances)
    if explanation.matrix is not None and number == 0:
        matrix = explanation.matrix
        matrices = list(matrix[sample] if several else matrix[sample : sample + 1])
    boxes: Sequence[tuple[float, ...] | None] = [None] * len(relevances)
    if explanation.boxes is not None:
        boxes = [tuple(box) for box in explanation.boxes[sample].tolist()]
    facts = get_method(explanation.method).facts
    return [
        View(
            explanation.method,
            question,
            shown,
            None if rows is None else rows_of(part, rows),
            box=box if number == 0 else None,
            top=float((scores * part.content[sample]).abs().max()) if shared else None,
            signed=facts is not None and facts.signed,
        )
        for question, scores, shown, rows, box in zip(
            _questions(explanation, sample), relevances, drawn, matrices, boxes, strict=True
        )
    ]


def _on_one_scale(parts: list[list[View]]) -> list[list[View]]:
    """Every view with the strongest score of all parts, and with a sign where one has it."""
    scales = [
        (max(view.top or 0.0 for view in same), any(view.signed for view in same))
        for same in zip(*parts, strict=True)
    ]
    return [
        [replace(v, top=top, signed=signed) for v, (top, signed) in zip(p, scales, strict=True)]
        for p in parts
    ]


def scores_of(part: Part, relevance: Tensor) -> np.ndarray:
    """Values of the tokens as they are drawn: a picture's as (height, width)."""
    relevance = relevance.double().cpu()
    if part.picture is None:
        return relevance.numpy()
    if part.tokens.grid is None and part.tokens.volume is None:
        return relevance.unsqueeze(0).numpy()
    return part.tokens.to_map(relevance).numpy()


def rows_of(part: Part, matrix: Tensor) -> np.ndarray:
    """The rows of single tokens in the order in which these are drawn."""
    if part.tokens.grid is not None or part.tokens.volume is not None:
        for _ in range(2):  # its columns, then its rows, in the order of the map
            matrix = part.tokens.to_map(matrix).flatten(-2).mT
    return matrix.float().cpu().numpy()


def _classes(
    explanation: Explanation, sample: int, asked: Sequence[ClassScore]
) -> list[ClassScore]:
    logits = explanation.logits_of(sample)
    if logits.ndim > 1 or several_places(explanation, sample):
        return list(dict.fromkeys(asked))
    best = logits.argsort(descending=True)[:TOP_CLASSES].tolist()
    chosen = dict.fromkeys([*best, *(score.index for score in asked if score.is_class)])
    ordered = sorted(chosen, key=lambda index: -float(logits[index]))
    told = {score.index: score for score in asked}
    scores = [told.get(i) or class_score(explanation, sample, i) for i in ordered]
    return [*scores, *dict.fromkeys(score for score in asked if not score.is_class)]
