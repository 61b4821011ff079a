"""Where each input's relevance is read in the graph, and how it becomes one number a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whyformer.engine import Trace, carry
from whyformer.engine.following import carried, sample_axis, sequence_first
from whyformer.engine.forward_record import Root
from whyformer.engine.graph import nodes
from whyformer.engine.inputs import MAIN_INPUTS
from whyformer.tokens import Tokens, sums_over_patches, text_content

#: of pixels
MOST_CHANNELS = 4
#: tokens that a model puts beside a sequence's own
MOST_SPECIAL = 16


class Site:
    """One input: its tokens, and the values of the graph that its relevance is read at.

    Where the model puts tokens of its own beside the input's, ``special`` are their places in the
    stream that enters the first block. They stand before the input's tokens, or behind them where
    the model has them there; ``order`` are the places of all tokens in the stream.
    """

    def __init__(self, tokens: Tokens, values: Sequence[Tensor], batch: int) -> None:
        self.tokens = tokens
        self.batch = batch
        self._own = list(values)
        self._entry: Tensor | None = None
        self.special: list[int] = []
        self.order: Tensor | None = None
        #: how many samples share the input, each of which is asked by itself
        self.shared: int | None = None

    @property
    def values(self) -> list[Tensor]:
        return self._own if self._entry is None else [*self._own, self._entry]

    def read(self, slots: Sequence[Tensor | None]) -> Tensor:
        """What arrived at the values, as (batch, tokens)."""
        found = [self.rows(slot) for slot in slots[: len(self._own)] if slot is not None]
        count = self.tokens.content.numel() // self.tokens.content.shape[0] - len(self.special)
        count = count // self.batch if self.shared else count
        own = torch.stack(found).sum(0) if found else self._own[0].new_zeros(self.batch, count)
        special = None
        if self._entry is not None and slots[-1] is not None:
            special = by_sample(slots[-1].sum(-1), self._entry, self.batch)[:, self.special]
        return self.with_special(own.detach(), special)

    def with_special(self, own: Tensor, special: Tensor | None = None) -> Tensor:
        """The input's tokens and the special ones beside them, in their order."""
        if self._entry is None:
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
        return len(self.special) if self.special and self.special[0] == 0 else 0

    def rows(self, slot: Tensor) -> Tensor:
        """(batch, tokens, features) or (tokens, batch, features), summed over the features."""
        return by_sample(slot.sum(-1), self._own[0], self.batch).reshape(self.batch, -1)

    def from_input(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Values at the input itself, summed over its features, and their sum for each token."""
        words = self.rows(values)
        return words, self.with_special(words)

    def beside(self, trace: Trace, entry: Tensor | None) -> Site:
        """Find the places of the input's tokens in the stream; the others are special."""
        if entry is None or entry.ndim != 3 or self.batch != trace.batch:
            return self
        places = self._places(trace, entry)
        if places is None:
            return self
        length = entry.shape[:2].numel() // self.batch
        self.special = sorted(set(range(length)) - set(places))
        own = torch.tensor(places)
        if not self.special:
            self.order = own
            return self
        special = torch.tensor(self.special)
        self._entry = entry
        self.order = torch.cat([special, own] if self.prefix else [own, special])
        content = self.tokens.content
        hidden = content.new_zeros(self.batch, len(self.special))
        content = torch.cat([hidden, content] if self.prefix else [content, hidden], 1)
        self.tokens = replace(self.tokens, content=content, prefix=self.prefix)
        return self

    def _places(self, trace: Trace, entry: Tensor) -> list[int] | None:
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

    def from_input(self, values: Tensor) -> tuple[Tensor, Tensor]:
        found = self.rows(values)
        return found, self.with_special(found)


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
        pixels = values if values.ndim == 3 else values.sum(channel_axis(values))
        grid = tokens.volume or tokens.grid
        assert grid is not None
        if tokens.kind == "spectrogram":
            pixels = pixels.mT
        return pixels, self.with_special(sums_over_patches(pixels, grid))

    def rows(self, slot: Tensor) -> Tensor:
        grid = self.tokens.volume or self.tokens.grid
        assert grid is not None
        return patch_sums(slot.sum(channel_axis(slot)), self.batch, grid)


def patch_sums(values: Tensor, batch: int, grid: tuple[int, ...]) -> Tensor:
    """(batch, *grid), frames folded or not, or pixels of an image: one sum a patch."""
    if len(grid) == 2 and tuple(values.shape[-2:]) != grid:
        return sums_over_patches(values.reshape(batch, *values.shape[-2:]), grid)
    return values.reshape(batch, -1)


def channel_axis(values: Tensor) -> int:
    """Of (batch, channels, ...); of a video's own frames, (batch, frames, channels, ...)."""
    return 2 if values.ndim == 5 and values.shape[2] <= MOST_CHANNELS else 1


def by_sample(values: Tensor, source: Tensor, batch: int) -> Tensor:
    """(batch, tokens), though the sequence came first."""
    return values.transpose(0, 1) if sequence_first(source, batch) else values


# -- from a recorded forward


def find_sites(trace: Trace, inputs: Any, grid: tuple[int, int] | None = None) -> list[Site]:
    """One site for each input, the main one first."""
    groups: dict[str, list[Root]] = {}
    for root in trace.seen.roots:
        groups.setdefault(root.name, []).append(root)
    order = sorted(groups, key=lambda name: MAIN_INPUTS.index(name) if name in MAIN_INPUTS else 99)
    sites = [site_of(trace, inputs, groups[name], grid) for name in order]
    for site in sites[1:]:
        if site.batch != trace.batch or trace.seen.crossed:
            site.share(trace.batch)
    return sites


def site_of(trace: Trace, inputs: Any, roots: list[Root], grid: tuple[int, int] | None) -> Site:
    root = roots[0]
    batch = trace.batch if len(root.leaf) == trace.batch else len(root.leaf)
    if root.ids is not None:
        return text_site(trace, inputs, roots)
    if root.leaf.ndim in (4, 5):
        return image_site(trace, root, batch, grid)
    return sequence_site(trace, inputs, root, batch)


def text_site(trace: Trace, inputs: Any, roots: list[Root]) -> Site:
    ids = roots[0].ids
    assert ids is not None
    samples = carried(roots[0].leaf)
    assert samples is not None
    first = ids.ndim == 2 and sequence_first(roots[0].leaf, trace.batch)
    shape = (ids.mT if first else ids).shape
    if samples.axis is not None and len(samples.ids) > samples.batch:
        shape = torch.Size((samples.batch, ids.numel() // samples.batch))
    content = text_content(inputs, roots[0].name, shape).to(ids.device)
    tokens = Tokens("text", content, name=roots[0].name)
    alike = [r.value for r in roots if r.value.shape[:-1] == roots[0].value.shape[:-1]]
    site = Site(tokens, alike, shape[0])
    if len({root.name for root in trace.seen.roots}) == 1:
        site.beside(trace, longer_entry(trace, roots[0], shape[1]))
    return site


def sequence_site(trace: Trace, inputs: Any, root: Root, batch: int) -> Site:
    """Features of a sequence; where the model makes its own tokens of them, those."""
    entry = first_entry(trace, root)
    leaf = root.leaf
    own = entry is None or entry.ndim != 3
    if entry is not None and not own:
        extra = entry.shape[:2].numel() // batch - leaf.shape[1]
        own = 0 <= extra <= MOST_SPECIAL
    if leaf.ndim == 3 and own:
        content = text_content(inputs, root.name, leaf.shape[:2]).to(leaf.device)
        kind = "text" if root.name.endswith("inputs_embeds") else "sequence"
        site = FeatureSite(Tokens(kind, content, name=root.name), [leaf], batch)
        return site.beside(trace, longer_entry(trace, root, leaf.shape[1]))
    if leaf.ndim == 3 and entry is not None:
        patches = patch_convolution(trace, root, entry, batch)
        if patches is not None and patches.ndim == 4 and leaf.shape[0] == len(patches):
            grid = (patches.shape[-2], patches.shape[-1])
            content = torch.ones(batch, grid[0] * grid[1], dtype=torch.bool, device=leaf.device)
            size = (leaf.shape[2], leaf.shape[1])
            tokens = Tokens("spectrogram", content, grid, size, name=root.name)
            return ImageSite(tokens, [patches], batch).beside(trace, entry)
    if entry is not None and entry.ndim == 3:
        axis = sample_axis(entry, batch)
        if axis is not None:
            length = entry.shape[1 - axis]
            content = torch.ones(batch, length, dtype=torch.bool, device=leaf.device)
            time = 2 if leaf.ndim == 3 and leaf.shape[2] > leaf.shape[1] else 1
            return FrameSite(Tokens("sequence", content, name=root.name), entry, batch, time)
    content = torch.ones(leaf.shape[:2], dtype=torch.bool, device=leaf.device)
    return FeatureSite(Tokens("sequence", content, name=root.name), [leaf], batch)


def image_site(trace: Trace, root: Root, batch: int, grid: tuple[int, int] | None) -> Site:
    entry = first_entry(trace, root)
    patches = patch_convolution(trace, root, entry, batch)
    frames = root.leaf.ndim == 5
    volume = None
    if frames:
        volume = video_volume(root.leaf, patches, batch)
        if volume is None:
            patches = root.leaf
            volume = (root.leaf.shape[1], *root.leaf.shape[-2:])
    elif grid is None or patches is None or tuple(patches.shape[-2:]) != grid:
        if grid is not None:
            patches = root.leaf
        elif patches is not None:
            grid = (patches.shape[-2], patches.shape[-1])
        else:
            patches, grid = root.leaf, guessed_grid(root, entry, batch)
    assert patches is not None
    size = (root.leaf.shape[-2], root.leaf.shape[-1])
    count = torch.Size(volume or grid or ()).numel()
    content = torch.ones(batch, count, dtype=torch.bool, device=root.leaf.device)
    kind = "video" if volume else "image"
    tokens = Tokens(kind, content, grid, size, volume=volume, name=root.name)
    return ImageSite(tokens, [patches], batch).beside(trace, entry)


def longer_entry(trace: Trace, root: Root, length: int) -> Tensor | None:
    """The stream of the first block, where it has more places than the input has tokens."""
    entry = first_entry(trace, root)
    if entry is None or entry.shape[:-1].numel() <= trace.batch * length:
        return None
    return entry


def first_entry(trace: Trace, root: Root) -> Tensor | None:
    """The stream of the first block that the input reaches."""
    for block in trace.seen.blocks:
        if any(getattr(node, "variable", None) is root.leaf for node in nodes([block.entry])):
            return block.entry
    return None


def patch_convolution(trace: Trace, root: Root, entry: Tensor | None, batch: int) -> Tensor | None:
    """The finest convolution before the first block with no more places than the stream has."""
    spatial = 3 if root.leaf.ndim == 5 else 2
    above = set(nodes([entry])) if entry is not None else None
    room = None
    if entry is not None:
        room = entry.shape[:-1].numel() // batch
        if entry.ndim == 4 and entry.shape[0] == batch:
            room = max(room, entry.shape[-2:].numel())
    fitting = []
    for out, _ in trace.seen.convolutions:
        if above is not None and out.grad_fn not in above:
            continue
        if out.ndim not in (4, spatial + 2):
            continue
        places = out.numel() // out.shape[1] // batch
        if room is None or places <= room:
            fitting.append((places, out))
    if not fitting:
        return None
    most = max(places for places, _ in fitting) if room is not None else fitting[-1][0]
    return next(out for places, out in reversed(fitting) if places == most)


def video_volume(leaf: Tensor, patches: Tensor | None, batch: int) -> tuple[int, int, int] | None:
    if patches is None:
        return None
    if patches.ndim == 5:
        return (patches.shape[2], patches.shape[3], patches.shape[4])
    return (patches.shape[0] // batch, patches.shape[2], patches.shape[3])


def guessed_grid(root: Root, entry: Tensor | None, batch: int) -> tuple[int, int]:
    """Patches that no convolution made: of the image's proportions, beside usual special tokens."""
    height, width = root.leaf.shape[-2:]
    length = 0 if entry is None else entry.shape[:-1].numel() // batch
    for prefix in (1, 0, 2, 5):
        patches = length - prefix
        if patches <= 0:
            continue
        rows = round((patches * height / width) ** 0.5)
        if rows > 0 and rows * width == (patches // rows) * height and patches % rows == 0:
            return rows, patches // rows
    return int(height), int(width)
