"""Where each input's relevance is read in the graph, and how it becomes one number a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whyformer.engine import Trace, carry
from whyformer.engine.following import sample_axis, sequence_first
from whyformer.tokens import Tokens, sums_over_patches

#: tokens that a model puts beside a sequence's own
MOST_SPECIAL = 16


class Site:
    """One input: its tokens, and the values of the graph that its relevance is read at.

    Where the model puts tokens of its own beside the input's, ``special`` are their places in the
    stream that enters the first block, ``entry``. They stand before the input's tokens, or behind
    them where the model has them there; ``order`` are the places of all tokens in the stream.
    """

    def __init__(self, tokens: Tokens, values: Sequence[Tensor], batch: int) -> None:
        self.tokens = tokens
        self.batch = batch
        self._own = list(values)
        self.stream: Tensor | None = None
        self.entry: Tensor | None = None
        self.special: list[int] = []
        #: the place of the input's first token in the stream
        self.first = 0
        self.order: Tensor | None = None
        #: how many samples share the input, each of which is asked by itself
        self.shared: int | None = None

    @property
    def values(self) -> list[Tensor]:
        return self._own if self.entry is None else [*self._own, self.entry]

    def read(self, slots: Sequence[Tensor | None]) -> Tensor:
        """What arrived at the values, as (batch, tokens)."""
        found = [self.rows(slot) for slot in slots[: len(self._own)] if slot is not None]
        count = self.tokens.content.numel() // self.tokens.content.shape[0] - len(self.special)
        count = count // self.batch if self.shared else count
        own = torch.stack(found).sum(0) if found else self._own[0].new_zeros(self.batch, count)
        entry = slots[-1] if self.entry is not None else None
        return self.with_special(own.detach(), self.at_special(entry))

    def at_special(self, slot: Tensor | None) -> Tensor | None:
        """What arrived at the special tokens of the stream that enters the first block."""
        if self.entry is None or slot is None:
            return None
        return by_sample(slot.sum(-1), self.entry, self.batch)[:, self.special]

    def with_special(self, own: Tensor, special: Tensor | None = None) -> Tensor:
        """The input's tokens and the special ones beside them, in their order."""
        if self.entry is None:
            return self.each(own)
        if special is None:
            special = own.new_zeros(self.batch, len(self.special))
        return torch.cat([special, own] if self.prefix else [own, special], 1)

    def each(self, rows: Tensor) -> Tensor:
        """What all samples share, for every sample: (samples, tokens of all)."""
        return rows if self.shared is None else rows.reshape(1, -1).expand(self.shared, -1)

    def share(self, samples: int) -> None:
        """The input is no part of one sample: texts beside several images."""
        self.shared = samples
        content = self.tokens.content.reshape(1, -1).expand(samples, -1)
        self.tokens = replace(self.tokens, content=content)

    @property
    def prefix(self) -> int:
        """How many special tokens stand before the input's own."""
        return len(self.special) if self.special and self.special[0] < self.first else 0

    def rows(self, slot: Tensor) -> Tensor:
        """(batch, tokens, features) or (tokens, batch, features), summed over the features."""
        return by_sample(slot.sum(-1), self._own[0], self.batch).reshape(self.batch, -1)

    def from_input(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Values at the input itself, summed over its features, and their sum for each token."""
        words = self.rows(values)
        return words, self.with_special(words)

    def within(self, stream: Tensor | None) -> Site:
        """The site, whose tokens enter a stream that may hold others' as well."""
        self.stream = stream
        return self

    def beside(self, trace: Trace, others: Sequence[Site]) -> None:
        """Find the places of the input's tokens in the stream; those of no input are special."""
        entry = self.stream
        if entry is None or entry.ndim != 3 or self.batch != trace.batch:
            return
        places = self.places(trace, entry)
        if places is None:
            return
        taken = {place for site in others for place in site.places(trace, entry) or ()}
        length = entry.shape[:2].numel() // self.batch
        self.special = sorted(set(range(length)) - set(places) - taken)
        self.first = min(places)
        own = torch.tensor(places)
        if not self.special:
            self.order = own
            return
        special = torch.tensor(self.special)
        self.entry = entry
        self.order = torch.cat([special, own] if self.prefix else [own, special])
        content = self.tokens.content
        hidden = content.new_zeros(self.batch, len(self.special))
        content = torch.cat([hidden, content] if self.prefix else [content, hidden], 1)
        self.tokens = replace(self.tokens, content=content, prefix=self.prefix)

    def places(self, trace: Trace, entry: Tensor) -> list[int] | None:
        """Which place of the stream each token became: the places' own numbers, carried down.

        None where a token became no place, several, or a part of one.
        """
        axis = sample_axis(entry, self.batch)
        if axis is None:
            return None
        length = entry.shape[1 - axis]
        numbers = torch.arange(1.0, length + 1, device=entry.device, dtype=torch.float64)
        line = numbers.view(-1, 1) if axis == 0 else numbers.view(-1, 1, 1)
        mass = (line / entry.shape[-1]).expand(entry.shape).to(entry)
        (found,) = carry(trace, [(entry, mass)], self._own[:1])
        if found is None:
            return None
        places = self.rows(found.double())[0] - 1
        whole = places.round()
        listed = [int(place) for place in whole.tolist()]
        exact = bool(((places - whole).abs() < 1e-2).all()) and len(set(listed)) == len(listed)
        return listed if exact and min(listed) >= 0 and max(listed) < length else None


class FeatureSite(Site):
    """Features as they are given, (batch, tokens, ...), or one axis of numbers."""

    def rows(self, slot: Tensor) -> Tensor:
        return slot.flatten(2).sum(-1) if slot.ndim > 2 else slot


class FrameSite(Site):
    """Tokens that the model made of a sound's samples or frames, in their order.

    ``time`` is the input's axis that runs along with them.
    """

    def __init__(self, tokens: Tokens, entry: Tensor, batch: int, time: int) -> None:
        super().__init__(tokens, [entry], batch)
        self.time = time

    def from_input(self, values: Tensor) -> tuple[Tensor, Tensor]:
        others = [axis for axis in range(1, values.ndim) if axis != self.time]
        line = values.sum(others) if others else values
        return line, sums_over_patches(line, (self.tokens.content.shape[1],))


class ImageSite(Site):
    """Patches where a convolution made them, or pixels."""

    def from_input(self, values: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.tokens
        pixels = values if values.ndim == 3 else values.sum(2 if values.ndim == 5 else 1)
        grid = tokens.volume or tokens.grid
        assert grid is not None
        if tokens.kind == "spectrogram":
            pixels = pixels.mT
        return pixels, self.with_special(sums_over_patches(pixels, grid))

    def rows(self, slot: Tensor) -> Tensor:
        grid = self.tokens.volume or self.tokens.grid
        assert grid is not None
        frames = slot.ndim == 5 and slot.shape[1] == grid[0] and slot.shape[2] != grid[1]
        values = slot.sum(2 if frames else 1)
        if len(grid) == 2 and tuple(values.shape[-2:]) != grid:  # pixels, not patches
            return sums_over_patches(values.reshape(self.batch, *values.shape[-2:]), grid)
        return values.reshape(self.batch, -1)


def by_sample(values: Tensor, source: Tensor, batch: int) -> Tensor:
    """(batch, tokens), though the sequence came first."""
    return values.transpose(0, 1) if sequence_first(source, batch) else values


def last_tokens(sites: Sequence[Site], mask: Any, output: Tensor) -> list[int]:
    """The place of every sample's last real token, where the output has one row a token."""
    if output.ndim != 3:
        return []
    batch, length = output.shape[:2]
    for site in reversed(sites):
        shown = site.tokens.content
        if site.tokens.kind == "text" and shown.shape[1] == length:
            if isinstance(mask, Tensor) and mask.shape == shown.shape:
                shown = mask
            places = torch.arange(length, device=shown.device)
            return [int((row != 0).mul(places).max()) for row in shown]
    return [length - 1] * batch
