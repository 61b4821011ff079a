"""What is drawn: one input with its views, in plain arrays.

Every picture, page and file is made from a ``Sheet``, so that they all tell the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from PIL import Image

from whyformer.explanation import Sound
from whyformer.photo import Crop
from whyformer.words import Piece, Word, words_of

#: negative scores smaller than this share of the largest are rounding, not relevance
ROUNDING = 1e-6


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
        """The first of a label's synonyms: "tabby" of "tabby, tabby cat".

        A label that starts or ends with a space, as words of a language model do, is quoted.
        """
        if self.label.strip() != self.label:
            return f'"{self.label}"'
        return self.label.split(",")[0].strip() or self.label or str(self.index)

    @property
    def number(self) -> str:
        """The probability, or a regression's value; a small probability keeps a digit."""
        if self.logit is None:
            return ""
        if self.probability is None:
            return f"{self.logit:.3g}"
        return f"{self.probability:{'.2f' if self.probability >= 0.005 else '.1g'}}"

    @property
    def is_class(self) -> bool:
        return self.index >= 0


def in_words(number: int, words: str = "the function") -> ClassScore:
    """What was asked where it is no class: the first such target is -1, the next -2."""
    return ClassScore(-1 - number, words, None, None)


@dataclass(frozen=True)
class View:
    """One method's answer for one class: ``asked`` is None for class-agnostic methods.

    ``scores`` are an image's patches (rows, columns) or a text's pieces. ``rows`` is the same for
    every token as the one that is asked about, where the method has it. ``top`` is the strongest
    score of all parts of the input, where there are several: they share one scale. ``box`` is where
    it was asked: left, top, right, bottom in shares of the picture. ``signed``: what is negative
    spoke against, by the method's facts or by the scores. ``limits`` are the scores that the
    colours span, where they are not the view's own.
    """

    method: str
    asked: ClassScore | None
    scores: np.ndarray
    rows: np.ndarray | None = field(default=None, repr=False)
    top: float | None = None
    box: tuple[float, ...] | None = None
    signed: bool = False
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        size = np.abs(self.scores).max(initial=0)
        negative = bool(self.scores.min(initial=0) < -ROUNDING * size)
        object.__setattr__(self, "signed", self.signed or negative)

    @property
    def share(self) -> np.ndarray:
        """The scores on the scale of the colours: 1 is its end, and so is -1 where they are signed.

        It is linear in the scores, so that what is between patches can be drawn from it.
        """
        low, high = self.span
        if high <= low:
            return self.scores * 0.0
        if self.signed:
            return self.scores / high
        return (np.maximum(self.scores, 0) - low) / (high - low)

    @property
    def strength(self) -> np.ndarray:
        """From 0 to 1, or from -1 where they are signed: the top percent is all."""
        return self.share.clip(-1 if self.signed else 0, 1)

    @cached_property
    def span(self) -> tuple[float, float]:
        """The scores that the colours span: of an image, from its least to its top percent."""
        if self.limits is not None:
            return self.limits
        if self.top is not None:
            return -self.top if self.signed else 0.0, self.top
        values = np.abs(self.scores) if self.signed else np.maximum(self.scores, 0)
        most = float(values.max(initial=0))
        if values.ndim == 1:
            return -most if self.signed else 0.0, most
        low, high = float(values.min()), float(np.quantile(values, 0.99, method="higher"))
        if self.signed:
            high = high or most
            return -high, high
        return low, high if high > low else most


@dataclass(frozen=True)
class Sheet:
    """One input of a model, what the model made of it, and the views that explain it.

    ``kind`` is "image" or "text", or "sound" and "video", whose ``image`` is the spectrogram or
    the ``frames`` side by side. Further inputs of the model stand on the sheets of ``others``;
    ``part`` is what this one is called among them. ``crop`` says what part of a photo ``image`` is.
    """

    kind: str
    title: str
    model: str
    preset: str
    problem: str
    classes: list[ClassScore]
    views: list[View]
    notes: list[str]
    image: Image.Image | None = None
    crop: Crop | None = None
    pieces: list[Piece] | None = None
    sound: Sound | None = field(default=None, repr=False)
    frames: int = 1
    part: str = ""
    others: tuple[Sheet, ...] = ()
    #: of all classes, for files that are read again; not of very many
    logits: list[float] | None = field(default=None, repr=False)
    labels: list[str] | None = field(default=None, repr=False)

    @property
    def parts(self) -> list[Sheet]:
        """All inputs of the model, this one first."""
        return [self, *self.others]

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

    @property
    def predicted(self) -> ClassScore | None:
        """The likeliest class, where the classes are ranked and not only those that were asked."""
        ranked = self.logits is not None or len(self.classes) > len(self.asked)
        best = self.classes[0] if ranked and self.classes else None
        return best if best is not None and best.is_class else None

    def view(self, method: str, asked: ClassScore | None) -> View | None:
        """A method's view of a class; a class-agnostic method has one for all."""
        for view in self.views:
            if view.method != method:
                continue
            if view.asked is None or (asked is not None and view.asked.index == asked.index):
                return view
        return None
