"""What many explanations of a class have in common: the mean of their maps, and their words."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from whyformer.render.document import jpeg_data
from whyformer.render.image import NOTHING, blended, stretched
from whyformer.render.palettes import map_colours
from whyformer.render.records import HEIGHT, Record, map_of
from whyformer.render.sheet import ClassScore, View

#: a class's words that are listed, and classes
MOST_WORDS, MOST_CLASSES = 10, 60


@dataclass
class Word:
    """A word over many texts: as it was first written, and the sum of its shares of a text."""

    text: str
    share: float = 0.0
    texts: int = 0


@dataclass
class Sums:
    """Of one class: running sums, which do not grow with the inputs."""

    name: str
    images: int = 0
    texts: int = 0
    map: np.ndarray | None = None
    signed: bool = False
    words: dict[str, Word] = field(default_factory=dict)

    def add_map(self, view: Record) -> None:
        shares = map_of(view)
        if self.map is None:
            self.map = np.zeros(shares.shape)
        rows, columns = self.map.shape
        if shares.shape != self.map.shape:
            shares = stretched(shares, (columns, rows))
        self.map += shares
        self.images += 1
        self.signed |= view["signed"]

    def add_words(self, view: Record) -> None:
        self.texts += 1
        self.signed |= view["signed"]
        least = -np.inf if view["signed"] else 0.0
        heard = [(text, max(score, least)) for _, text, score in view["words"] if score is not None]
        total = sum(abs(score) for _, score in heard) or 1.0
        shares: dict[str, float] = defaultdict(float)
        for text, score in heard:
            key = text.strip().casefold()
            self.words.setdefault(key, Word(text.strip()))
            shares[key] += score / total
        for key, share in shares.items():
            self.words[key].share += share
            self.words[key].texts += 1

    def entry(self, colours: str | None) -> dict[str, Any]:
        """For the page."""
        means = [(word, word.share / word.texts) for word in self.words.values()]
        means.sort(key=lambda mean: (mean[0].texts < 2, -mean[1]))
        words = [
            {"text": word.text, "share": share, "texts": word.texts}
            for word, share in means[:MOST_WORDS]
        ]
        entry: dict[str, Any] = {"name": self.name, "images": self.images, "texts": self.texts}
        if self.map is not None:
            entry["map"] = jpeg_data(self.picture(self.map / self.images, colours))
        return {**entry, "words": words, "signed": self.signed}

    def picture(self, mean: np.ndarray, name: str | None) -> Image.Image:
        view = View("", None, mean, signed=self.signed)
        rows, columns = mean.shape
        heat = stretched(view.strength, (round(HEIGHT * columns / rows), HEIGHT))
        colours = map_colours(self.signed, name)
        if not self.signed:
            return Image.fromarray(colours.of(heat))
        return blended(Image.new("RGB", heat.shape[::-1], NOTHING), heat, 1.0, colours)


class Averages:
    """Records, one after the other, by the class that was explained."""

    def __init__(self, colours: str | None = None) -> None:
        self.colours = colours
        self._classes: dict[tuple[int, str], Sums] = {}

    def add(self, record: Record) -> None:
        """An input counts once for a class, also where an answer has the same word twice."""
        views: dict[tuple[int, str], tuple[str, Record]] = {}
        for view in record["views"]:
            about = view["asked"] or record["predicted"]
            score = ClassScore(**about) if about else ClassScore(-1, "every class", None, None)
            key = max(score.index, -1), score.label  # below 0 it only counts the questions
            views.setdefault(key, (score.name, view))
        for key, (name, view) in views.items():
            sums = self._classes.setdefault(key, Sums(name))
            if record["kind"] == "image":
                sums.add_map(view)
            elif "words" in view:
                sums.add_words(view)

    @property
    def known(self) -> list[Sums]:
        """The classes of several inputs, those with the most first."""
        some = [sums for sums in self._classes.values() if sums.images + sums.texts > 1]
        return sorted(some, key=lambda sums: (-sums.images - sums.texts, sums.name))

    def entries(self) -> list[dict[str, Any]]:
        return [sums.entry(self.colours) for sums in self.known[:MOST_CLASSES]]
