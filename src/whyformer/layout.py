"""Find where each input's relevance is read, in a recorded forward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whyformer.engine import Trace
from whyformer.engine.following import carried, sample_axis, sequence_first
from whyformer.engine.forward_record import Root
from whyformer.engine.graph import nodes
from whyformer.engine.inputs import MAIN_INPUTS
from whyformer.sites import MOST_SPECIAL, FeatureSite, FrameSite, ImageSite, Site
from whyformer.tokens import Tokens, text_content


def find_sites(trace: Trace, inputs: Any, grid: tuple[int, int] | None = None) -> list[Site]:
    """One site for each input, the main one first."""
    groups: dict[str, list[Root]] = {}
    for root in trace.seen.roots:
        groups.setdefault(root.name, []).append(root)
    order = sorted(groups, key=lambda name: MAIN_INPUTS.index(name) if name in MAIN_INPUTS else 99)
    sites = [site_of(trace, inputs, groups[name], grid) for name in order]
    for site in sites:
        site.beside(trace, [other for other in sites if other is not site])
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
    if root.leaf.ndim == 2 and len(root.leaf) != trace.batch and len(root.leaf) % trace.batch == 0:
        shape = (trace.batch, len(root.leaf) // trace.batch)  # every sample's patches, as rows
        content = torch.ones(shape, dtype=torch.bool, device=root.leaf.device)
        return Site(Tokens("sequence", content, name=root.name), [root.leaf], trace.batch)
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
        site.within(longer_entry(trace, roots[0], shape[1]))
    return site


def sequence_site(trace: Trace, inputs: Any, root: Root, batch: int) -> Site:
    """Features of a sequence; where the model makes its own tokens of them, those."""
    entry = first_entry(trace, root)
    leaf = root.leaf
    if leaf.ndim == 3:
        content = text_content(inputs, root.name, leaf.shape[:2]).to(leaf.device)
        kind = "text" if root.name.endswith("inputs_embeds") else "sequence"
        site = FeatureSite(Tokens(kind, content, name=root.name), [leaf], batch)
        if keeps_tokens(trace, site, entry):
            return site.within(longer_entry(trace, root, leaf.shape[1]))
    if leaf.ndim == 3 and entry is not None:
        patches = patch_convolution(trace, root, entry, batch)
        if patches is not None and patches.ndim == 4 and leaf.shape[0] == len(patches):
            grid = (patches.shape[-2], patches.shape[-1])
            content = torch.ones(batch, grid[0] * grid[1], dtype=torch.bool, device=leaf.device)
            size = (leaf.shape[2], leaf.shape[1])
            tokens = Tokens("spectrogram", content, grid, size, name=root.name)
            return ImageSite(tokens, [patches], batch).within(entry)
    if entry is not None and entry.ndim == 3:
        axis = sample_axis(entry, batch)
        if axis is not None:
            length = entry.shape[1 - axis]
            content = torch.ones(batch, length, dtype=torch.bool, device=leaf.device)
            time = 2 if leaf.ndim == 3 and leaf.shape[2] > leaf.shape[1] else 1
            return FrameSite(Tokens("sequence", content, name=root.name), entry, batch, time)
    content = torch.ones(leaf.shape[:2], dtype=torch.bool, device=leaf.device)
    return FeatureSite(Tokens("sequence", content, name=root.name), [leaf], batch)


def keeps_tokens(trace: Trace, site: Site, entry: Tensor | None) -> bool:
    """Whether what enters the first block are the tokens as they were given, others beside them."""
    if entry is None or entry.ndim != 3:
        return True
    more = entry.shape[:2].numel() // site.batch - site.tokens.content.shape[1]
    return 0 <= more <= MOST_SPECIAL or (more > 0 and site.places(trace, entry) is not None)


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
    return ImageSite(tokens, [patches], batch).within(entry)


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
    for out in (convolution.out for convolution in trace.seen.convolutions):
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
