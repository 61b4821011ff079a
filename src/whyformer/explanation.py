"""The answer: how much every token spoke for the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import InputError, nearest
from whyformer.photo import Crop, over_the_photo
from whyformer.tokens import Tokens, sums_over_patches, upsampled
from whyformer.words import Piece, strongest, words_of

#: the kinds of heads, by the names that Hugging Face's configurations use
SINGLE_LABEL = "single_label_classification"
MULTI_LABEL = "multi_label_classification"
REGRESSION = "regression"
#: and of models that write: the classes are the words that may follow
NEXT_WORD = "next_word"


@dataclass(frozen=True, eq=False)
class Sound:
    """What was heard: (batch, samples) from -1 to 1, and how many of them make a second."""

    samples: Tensor
    rate: int


@dataclass(frozen=True, eq=False)
class Part:
    """One input of the model: its tokens and their relevance, on the scale of all parts.

    For people it is shown as ``pieces`` of a text or as a ``picture`` (batch, channels, height,
    width), such as a ``sound``'s spectrogram or a video's frames side by side; ``crops`` say which
    part of each photo that is. ``title`` names it. ``cells`` is the grid that an image's map has
    where it is finer than the patches'.
    """

    tokens: Tokens
    relevance: Tensor
    input_relevance: Tensor | None = None
    pieces: list[list[Piece]] | None = field(default=None, repr=False)
    picture: Tensor | None = field(default=None, repr=False)
    crops: list[Crop | None] | None = field(default=None, repr=False)
    sound: Sound | None = field(default=None, repr=False)
    title: str = ""
    cells: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The input's name in the model's forward."""
        return self.tokens.name

    @property
    def content(self) -> Tensor:
        return self.tokens.content

    @property
    def map(self) -> Tensor:
        """The relevance of patches, (batch, height, width), or of the finer ``cells``."""
        if self.cells is None or self.input_relevance is None:
            return self.tokens.to_map(self.relevance)
        pixels = self.input_relevance.flatten(0, -3)
        sums = sums_over_patches(pixels, self.cells)
        return sums.reshape(*self.input_relevance.shape[:-2], *self.cells)

    @property
    def drawable(self) -> bool:
        return self.picture is not None or self.pieces is not None

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.relevance.shape)
        return f"Part({self.name}, {self.tokens.kind}, relevance {shape})"


@dataclass(frozen=True, eq=False)
class Blocks:
    """What a method worked with, a list over the blocks, input side first.

    Each is (batch, heads, tokens, tokens); with several targets (batch, targets, heads, ...).
    Methods that use no gradient or no relevance have None there.
    """

    attention: list[Tensor]
    gradient: list[Tensor] | None
    relevance: list[Tensor] | None

    def __repr__(self) -> str:
        kinds = [name for name, maps in vars(self).items() if maps is not None]
        return f"Blocks({len(self.attention)} blocks: {', '.join(kinds)})"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Relevance for a batch, with what it takes to read it.

    Several targets a sample put an axis behind the batch: (batch, targets, tokens). ``parts`` holds
    one for every input of the model; ``relevance``, ``tokens``, ``pieces``, ``picture`` and
    ``crops`` are the first one's. ``target`` and ``position`` are the class and its place in the
    output, where a class was asked for; ``asked`` says in words what else was, one for each target
    of a sample, and ``boxes`` (batch, targets, 4) where: left, top, right, bottom in shares of the
    picture. ``rows`` says how much of each token's own row was asked about. Without ``one_scale``
    every part has colours of its own: the parts meet in the answer alone, and each carries the
    whole of it.
    """

    logits: Tensor
    target: Tensor | None
    method: str
    preset: str
    parts: tuple[Part, ...]
    position: Tensor | None = None
    asked: tuple[str, ...] = ()
    one_scale: bool = True
    rows: Tensor | None = None
    matrix: Tensor | None = None
    blocks: Blocks | None = None
    notes: tuple[str, ...] = ()
    labels: list[str] | None = None
    problem: str = SINGLE_LABEL
    boxes: Tensor | None = None

    @property
    def relevance(self) -> Tensor:
        """(batch, tokens), or (batch, targets, tokens)."""
        return self.parts[0].relevance

    @property
    def input_relevance(self) -> Tensor | None:
        """Signed relevance of the input itself, where the method reaches it."""
        return self.parts[0].input_relevance

    @property
    def tokens(self) -> Tokens:
        return self.parts[0].tokens

    @property
    def pieces(self) -> list[list[Piece]] | None:
        """A text's tokens as they are written."""
        return self.parts[0].pieces

    @property
    def picture(self) -> Tensor | None:
        """An image's pixels, (batch, channels, height, width)."""
        return self.parts[0].picture

    @property
    def crops(self) -> list[Crop | None] | None:
        """Which part of each photo the model saw."""
        return self.parts[0].crops

    def part(self, name: str) -> Part:
        """The part of the input with a name, such as "input_ids"."""
        for part in self.parts:
            if part.name == name:
                return part
        raise InputError(
            f"no input {name!r} in this explanation; {nearest(name, [p.name for p in self.parts])}"
        )

    def showing(self, name: str, **shown: Any) -> Explanation:
        """The same with other pieces, picture, sound or title of the part with that name."""
        part = self.part(name)
        parts = tuple(replace(p, **shown) if p is part else p for p in self.parts)
        return replace(self, parts=parts)

    @property
    def content(self) -> Tensor:
        """(batch, tokens): the tokens that are actual input."""
        return self.tokens.content

    def logits_of(self, sample: int, target: int = 0) -> Tensor:
        """(classes,): the row of the output that a target of a sample was asked about."""
        row = self.logits[sample]
        if row.ndim == 2 and self.position is not None:
            return row[self.position[sample].reshape(-1)[target]]
        return row

    @property
    def grid(self) -> tuple[int, int] | None:
        """Height and width of an image's patch grid."""
        return self.tokens.grid

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self.logits)

    def __getitem__(self, sample: int) -> Explanation:
        """One sample's explanation: a batch of one."""
        if not -len(self) <= sample < len(self):
            raise IndexError(f"sample {sample} of a batch of {len(self)}")
        from whyformer.selecting import select

        return select(self, sample % len(self))

    def __iter__(self) -> Iterator[Explanation]:
        return (self[sample] for sample in range(len(self)))

    def top(self, count: int = 5) -> list[list[tuple[Any, float]]]:
        """Every sample's strongest words, or patches as (row, column), with their scores."""
        units = self.words() if self.grid is None else self._patches()
        return [sorted(each, key=lambda unit: -unit[1])[:count] for each in units]

    def _patches(self) -> list[list[tuple[tuple[int, int], float]]]:
        if self.relevance.ndim != 2:
            raise InputError("top() reads one target; ask for the targets one at a time")
        return [
            [((r, c), score) for r, row in enumerate(rows) for c, score in enumerate(row)]
            for rows in self.tokens.to_map(self.relevance).tolist()
        ]

    def to_pandas(self) -> Any:
        """A table with a row for each sample and word, or patch; it needs pandas."""
        from whyformer.tables import to_pandas

        return to_pandas(self)

    @classmethod
    def load(cls, path: str | Path, method: str | None = None) -> Explanation:
        """Read what ``save`` wrote to a .json or .npz file, or one method's of several there."""
        from whyformer.render.reading import read

        return read(path, method)

    def image_map(self, size: tuple[int, int] | None = None, *, original: bool = False) -> Tensor:
        """The map of an image, upsampled to the input's size or another: (batch, height, width).

        ``original`` lays it over the photo as it was before the model's preprocessing cut it. What
        the model did not see is NaN there: it was not found irrelevant, it was not looked at.
        """
        found = self.parts[0].map
        if self.grid is not None:  # a finer cell has a part of what its patch has
            found = found * (found.shape[-2:].numel() / torch.Size(self.grid).numel())
        if original:
            return over_the_photo(found, self.crops or [])
        return upsampled(found, size or self.tokens.size)

    def over_time(self) -> Tensor:
        """The relevance of every moment of a sound or a video: (batch, times)."""
        return self.tokens.over_time(self.relevance)

    def words(self) -> list[list[tuple[str, float]]]:
        """Every sample's words with their scores, a word's being its pieces' highest.

        Needs inputs that came from a fast tokenizer; with several targets ask one at a time.
        """
        if self.pieces is None:
            raise InputError(
                "words need the tokenizer's encoding: pass what the tokenizer returned as inputs"
            )
        if self.relevance.ndim != 2:
            raise InputError("words() reads one target; ask for the targets one at a time")
        return [
            [(word.text, strongest(scores, word.pieces)) for word in words_of(pieces)]
            for pieces, scores in zip(self.pieces, self.relevance.tolist(), strict=True)
        ]

    @property
    def probabilities(self) -> Tensor | None:
        """Of every class, (batch, classes): softmax, or sigmoid for several labels at once.

        A regression has none.
        """
        return as_probabilities(self.logits, self.problem)

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write a picture, a page or numbers, by the name's ending.

        Endings: .png, .svg, .pdf, .html, .json, .npz, .tex. Of a batch it is the first sample, or
        ``sample=``; a folder or a name such as "why-{}.html" takes all. ``options`` are those of
        ``whyformer.render.save``.
        """
        from whyformer.render import save

        return save(self, path, **options)

    def show(self, sample: int = 0) -> None:
        """Print to the terminal: half-blocks for an image, coloured words for a text."""
        from whyformer.render import show

        show(self, sample=sample)

    def _repr_html_(self) -> str | None:
        from whyformer.render import html_fragment, make_sheet

        drawable = any(part.drawable for part in self.parts)
        return html_fragment(make_sheet(self)) if drawable else None

    def _repr_png_(self) -> bytes | None:
        from whyformer.render import make_sheet, png

        drawable = any(part.drawable for part in self.parts)
        return png(make_sheet(self)) if drawable else None

    def label(self, index: int) -> str:
        return self.labels[index] if self.labels else str(index)

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.relevance.shape)
        asked = "none" if self.target is None else self.target.tolist()
        return f"Explanation({self.method}, {self.preset}, relevance {shape}, target {asked})"


def as_probabilities(logits: Tensor, problem: str) -> Tensor | None:
    """By the kind of head; a regression has none."""
    if problem == REGRESSION:
        return None
    return logits.sigmoid() if problem == MULTI_LABEL else logits.softmax(-1)
