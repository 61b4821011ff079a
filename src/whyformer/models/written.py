"""What a language model wrote, with the explanation of every token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from whyformer.explanation import NEXT_WORD, Explanation, Part
from whyformer.tokens import Tokens
from whyformer.words import Piece


@dataclass(frozen=True, eq=False)
class Written:
    """A prompt and what a model wrote behind it.

    ``pieces`` are all tokens as written, ``start`` of them the prompt's. ``relevance`` is
    (written, pieces): how much every piece spoke for each written token, zero from it on.
    ``written[i]`` is the explanation of the i-th token, as if the text had ended before it.
    """

    model: str
    method: str
    preset: str
    prompt: str
    text: str
    ids: list[int] = field(repr=False)
    pieces: list[Piece] = field(repr=False)
    start: int
    relevance: Tensor = field(repr=False)
    logits: Tensor = field(repr=False)
    content: Tensor = field(repr=False)
    labels: list[str] = field(repr=False)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.relevance)

    def __getitem__(self, number: int) -> Explanation:
        if not -len(self) <= number < len(self):
            raise IndexError(f"token {number} of {len(self)} that were written")
        number %= len(self)
        end = self.start + number
        tokens = Tokens("text", self.content[:end].unsqueeze(0), name="input_ids")
        relevance = self.relevance[number : number + 1, :end]
        pieces = [self.pieces[:end]]
        return Explanation(
            logits=self.logits[number : number + 1],
            target=torch.tensor([self.ids[end]]),
            position=torch.tensor([end - 1]),
            method=self.method,
            preset=self.preset,
            parts=(Part(tokens, relevance, pieces=pieces),),
            notes=self.notes,
            labels=self.labels,
            problem=NEXT_WORD,
        )

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    @property
    def words(self) -> list[str]:
        """The written tokens, with the space that starts a word."""
        return [piece.gap + piece.text for piece in self.pieces[self.start :]]

    @property
    def probabilities(self) -> Tensor:
        """(written,): what the model gave to each token that it wrote."""
        chosen = torch.tensor(self.ids[self.start :]).unsqueeze(1)
        return self.logits.softmax(-1).gather(1, chosen).squeeze(1)

    def candidates(self, number: int, most: int = 5) -> list[tuple[str, float]]:
        """The likeliest words where a token was written, and their probabilities."""
        best = self.logits[number].softmax(-1).topk(min(most, self.logits.shape[1]))
        return [
            (self.labels[i], p)
            for p, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def save(self, path: str | Path, title: str = "") -> Path:
        """Write a page, a picture of the whole matrix, or numbers: .html, .png, .json, .npz."""
        from whyformer.render.story import save_story

        return save_story(self, path, title)

    def show(self) -> None:
        """Print the text, and for every written word those that it came from."""
        from whyformer.render.story import story_text
        from whyformer.render.terminal import has_colour

        print(story_text(self, colour=has_colour()))

    def _repr_html_(self) -> str:
        from whyformer.render.story import story_fragment

        return story_fragment(self)

    def __repr__(self) -> str:
        return f"Written({self.model}, {len(self)} tokens, {self.method}, {self.text!r})"
