"""What could not be followed, said in sentences: nothing is silently wrong."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from whyformer.asking import place_of, told_by_name
from whyformer.engine import Trace
from whyformer.engine.leaks import mixing_branches, mixing_convolutions
from whyformer.errors import MethodError
from whyformer.methods import Method
from whyformer.methods.question import Question
from whyformer.sites import Site


def notes_of(trace: Trace, model: nn.Module, method: Method) -> list[str]:
    """What an explanation says beside its map, sentence by sentence."""
    seen = trace.seen
    notes = [
        f"{name} (x{count}) has no rule of its own: the generic rule (Eq. 2) was used"
        for name, count in sorted(seen.fallbacks.items())
    ]
    notes += [
        f"{name} is not visible to the recorder: its gradient carried the relevance"
        for name in trace.foreign
    ]
    if method.by_maps:
        notes += [
            f"a softmax of shape {shape} was not recognised as attention: its block is missing"
            for shape in trace.unrecognised
        ]
        blocks, convolutions = mixing_branches(trace), mixing_convolutions(trace)
        if count := blocks or convolutions:
            what = "block" if blocks else "convolution"
            mixing = f"1 {what} mixes" if count == 1 else f"{count} {what}s mix"
            notes.append(
                f"{mixing} tokens outside attention, which {method.name} leaves out; "
                "gradient_x_input and fullgrad follow it"
            )
    notes += [f"{cut} cuts the graph: no relevance passes there" for cut in sorted(set(seen.cuts))]
    if trace.fast:
        notes.append("precision 'fast': products on the way back are of bfloat16 numbers")
    if model.training:
        notes.append("the model is in training mode: dropout may change the map")
    return notes


def unread_edge(trace: Trace, site: Site) -> list[str]:
    """That patches end before the image does, where one convolution cuts them out of it."""
    first, grid, size = (
        next(iter(trace.seen.convolutions), None),
        site.tokens.grid,
        site.tokens.size,
    )
    if first is None or first.overlaps or first.out is not site.values[0]:
        return []
    if site.tokens.kind != "image" or grid is None or size is None:
        return []
    read = [step * count for step, count in zip(first.steps, grid, strict=True)]
    if all(end >= length for end, length in zip(read, size, strict=True)):
        return []
    covered, whole = f"{read[0]} x {read[1]}", f"{size[0]} x {size[1]}"
    return [
        f"patches cover {covered} of the image's {whole} pixels: the rest is not read, though the "
        "map is stretched over it"
    ]


def zero_maps(relevances: Sequence[Tensor], question: Question, method: Method) -> list[str]:
    """That inputs' maps are zero: because no attention reads them, or by what the maps say."""
    empty = [not bool(relevance.any()) for relevance in relevances]
    if method.by_maps and any(empty) and (lasts := question.last_of_each) is not None:
        told = zip(question.sites, empty, lasts, strict=True)
        unread = [site.tokens.name for site, zero, last in told if zero and last is None]
        if unread:
            return [
                f"no attention reads {' and '.join(unread)}, so {method.name} tells nothing of it; "
                "gradient_x_input and fullgrad need none"
            ]
    return told_by_maps(relevances, method)


def told_by_maps(relevances: Sequence[Tensor], method: Method) -> list[str]:
    """What is to be said of these maps, (batch, [targets,] tokens) of every input, as they are."""
    told = blank_maps(relevances[0], method)
    if (remark := method.remark) is not None:
        maps = torch.cat(list(relevances), -1).flatten(0, -2)
        said = told_by_name(method, lambda: remark(maps))
        if not isinstance(said, list) or not all(isinstance(each, str) for each in said):
            raise MethodError(
                f"the remark of the method {method.name!r} ({place_of(method)}) is "
                f"{type(said).__name__}; expected a list of sentences"
            )
        told += said
    return told


def blank_maps(relevance: Tensor, method: Method) -> list[str]:
    """That a sample's map, (batch, [targets,] tokens), is zero, for one target at least."""
    blank = ~relevance.any(-1).reshape(len(relevance), -1).all(1)
    if not bool(blank.any()):
        return []
    whose = "" if bool(blank.all()) else f" for {int(blank.sum())} of {len(blank)} samples"
    said = f"the map is zero{whose}: by {method.name} no token speaks for the target"
    if method.facts is not None and method.facts.signed:
        return [f"{said}, or against it"]
    return [f"{said}; a signed method, such as fullgrad, tells what speaks against it"]
