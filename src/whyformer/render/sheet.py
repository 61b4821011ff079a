"""What is drawn: one input with its views, in plain arrays.

Every picture, page and file is made from a ``Sheet``, so that they all tell the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from PIL import Image
from torch import Tensor

from whyformer.errors import InputError
from whyformer.explanation import Explanation
from whyformer.methods import methods
from whyformer.words import Piece, Word, words_of

#: classes listed beside those that were asked about
TOP_CLASSES = 5


@dataclass(frozen=True)
class ClassScore:
    """A class with what the model gave it; a regression has no probability.

    A function of the logits stands here as well, without either.
    """

    index: int
    label: str
    logit: float | None
    probability: float | None

    @property
    def name(self) -> str:
        """The first of a label's synonyms: "tabby" of "tabby, tabby cat"."""
        return self.label.split(",")[0].strip() or str(self.index)

    @property
    def number(self) -> str:
        """The probability, or a regression's value."""
        if self.logit is None:
            return ""
        return f"{self.logit:.3g}" if self.probability is None else f"{self.probability:.2f}"


#: what a target that is a function is called
A_FUNCTION = ClassScore(-1, "the function", None, None)


@dataclass(frozen=True)
class View:
    """One method's answer for one class: ``asked`` is None for class-agnostic methods.

    ``scores`` are an image's patches (rows, columns) or a text's pieces. ``rows`` is the same for
    every token as the one that is asked about, where the method has it.
    """

    method: str
    asked: ClassScore | None
    scores: np.ndarray
    rows: np.ndarray | None = field(default=None, repr=False)

    @property
    def strength(self) -> np.ndarray:
        """From 0 to 1, for colours: negative relevance is nothing, the top percent is all."""
        low, high = self.span
        values = (
            (np.maximum(self.scores, 0) - low) / (high - low) if high > low else self.scores * 0
        )
        return values.clip(0, 1)

    @property
    def span(self) -> tuple[float, float]:
        """The scores that the colours span: of an image, from its least to its top percent."""
        values = np.maximum(self.scores, 0)
        most = float(values.max())
        if values.ndim == 1:
            return 0.0, most
        low, high = float(values.min()), float(np.quantile(values, 0.99, method="higher"))
        return low, high if high > low else most


@dataclass(frozen=True)
class Sheet:
    """An image or a text, what the model made of it, and the views that explain it."""

    kind: str
    title: str
    model: str
    preset: str
    problem: str
    classes: list[ClassScore]
    views: list[View]
    notes: list[str]
    image: Image.Image | None = None
    pieces: list[Piece] | None = None

    @property
    def words(self) -> list[Word]:
        return words_of(self.pieces or [])

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(view.method for view in self.views))

    @property
    def asked(self) -> list[ClassScore]:
        """The classes that were asked about, in order."""
        found = {view.asked.index: view.asked for view in self.views if view.asked}
        return list(found.values())

    def view(self, method: str, asked: ClassScore | None) -> View | None:
        """A method's view of a class; a class-agnostic method has one for all."""
        for view in self.views:
            if view.method != method:
                continue
            if view.asked is None or (asked is not None and view.asked.index == asked.index):
                return view
        return None


def make_sheet(
    explanations: Explanation | Sequence[Explanation],
    sample: int = 0,
    *,
    title: str = "",
    model: str = "",
) -> Sheet:
    """Explanations of the same input, by any methods and for any classes, on one sheet."""
    given = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    if not given:
        raise InputError("there is no explanation to draw")
    first = given[0]
    if not -len(first.logits) <= sample < len(first.logits):
        raise InputError(f"sample {sample} of a batch of {len(first.logits)}")
    sample %= len(first.logits)
    if len({(e.tokens.kind, e.grid, e.content.shape, e.logits.shape) for e in given}) > 1:
        raise InputError("the explanations are of different inputs; draw one input at a time")
    if first.tokens.kind != "image" and first.pieces is None:
        raise InputError(
            "only images and texts can be drawn; for text pass what the tokenizer returned, or use "
            "whyformer.load"
        )
    views = [view for explanation in given for view in _views(explanation, sample)]
    told = [(view.method, view.asked and view.asked.index) for view in views]
    if len(set(told)) < len(told) or len({explanation.preset for explanation in given}) > 1:
        raise InputError(
            "two explanations are by the same method for the same class, or by different presets; "
            "draw them on sheets of their own"
        )
    kind = "image" if first.grid is not None else "text"
    return Sheet(
        kind=kind,
        title=title,
        model=model,
        preset=first.preset,
        problem=first.problem,
        classes=_classes(first, sample, [view.asked for view in views if view.asked]),
        views=views,
        notes=list(dict.fromkeys(note for explanation in given for note in explanation.notes)),
        image=picture_of(first, sample) if kind == "image" else None,
        pieces=first.pieces[sample] if first.pieces and kind == "text" else None,
    )


def picture_of(explanation: Explanation, sample: int) -> Image.Image:
    """The image as the model saw it; pixels beyond 0 to 1 are stretched to fit."""
    assert explanation.picture is not None
    pixels = explanation.picture[sample].float().cpu()
    if pixels.min() < 0 or pixels.max() > 1:
        pixels = (pixels - pixels.min()) / (pixels.max() - pixels.min()).clamp(min=1e-12)
    if pixels.shape[0] not in (1, 3):
        pixels = pixels.mean(0, keepdim=True)
    array = (pixels.expand(3, -1, -1).permute(1, 2, 0) * 255).round().byte().numpy()
    return Image.fromarray(array)


def class_score(explanation: Explanation, sample: int, index: int) -> ClassScore:
    probabilities = explanation.probabilities
    share = None if probabilities is None else float(probabilities[sample, index])
    logit = float(explanation.logits[sample, index])
    return ClassScore(index, explanation.label(index), logit, share)


def _views(explanation: Explanation, sample: int) -> list[View]:
    relevance, target, matrix = explanation.relevance, explanation.target, explanation.matrix
    several = relevance.ndim == 3
    relevances = relevance[sample] if several else relevance[sample : sample + 1]
    matrices: Sequence[Tensor | None] = [None] * len(relevances)
    if matrix is not None:
        matrices = list(matrix[sample] if several else matrix[sample : sample + 1])
    asked: list[ClassScore | None] = [None] * len(relevances)
    if target is not None:
        chosen = target[sample].reshape(-1).tolist()
        asked = [class_score(explanation, sample, int(index)) for index in chosen]
    elif methods()[explanation.method].class_specific:
        asked = [A_FUNCTION]
    return [
        View(
            explanation.method,
            question,
            _scores(explanation, scores),
            None if rows is None else _rows(explanation, rows),
        )
        for question, scores, rows in zip(asked, relevances, matrices, strict=True)
    ]


def _scores(explanation: Explanation, relevance: Tensor) -> np.ndarray:
    if explanation.grid is not None:
        return explanation.tokens.to_map(relevance).double().cpu().numpy()
    return relevance.double().cpu().numpy()


def _rows(explanation: Explanation, matrix: Tensor) -> np.ndarray:
    if explanation.grid is not None:
        matrix = matrix[explanation.tokens.patches, explanation.tokens.patches]
    return matrix.float().cpu().numpy()


def _classes(
    explanation: Explanation, sample: int, asked: Sequence[ClassScore]
) -> list[ClassScore]:
    best = explanation.logits[sample].argsort(descending=True)[:TOP_CLASSES].tolist()
    chosen = dict.fromkeys([*best, *(score.index for score in asked if score != A_FUNCTION)])
    ordered = sorted(chosen, key=lambda index: -float(explanation.logits[sample, index]))
    scores = [class_score(explanation, sample, index) for index in ordered]
    return [*scores, A_FUNCTION] if A_FUNCTION in asked else scores
