"""Every value of a recording carries its samples; these hand them from value to value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.names import RESHAPES
from whyformer.engine.samples import Samples, folded, gathered, moved

#: these put other values beside or between a tensor's own
FILLS = frozenset(
    """
    pad scatter index_copy index_put index_fill masked_scatter slice_scatter select_scatter
    diagonal_scatter tril triu
    """.split()
)
#: of two tensors these choose one, element by element
CHOOSES = frozenset("max min maximum minimum fmax fmin".split())


def mark(tensor: Tensor, samples: Samples) -> Tensor:
    tensor._samples = samples  # type: ignore[attr-defined]
    return tensor


def carried(tensor: Tensor) -> Samples | None:
    return getattr(tensor, "_samples", None)


def follow(source: Tensor, result: Tensor) -> Tensor:
    """A result of the same shape has its source's samples."""
    samples = carried(source)
    return result if samples is None else mark(result, samples)


def follow_operands(operands: Iterable[Tensor], out: Tensor) -> None:
    """An operation's result has its operands' samples, on the axis that is as far right."""
    for operand in operands:
        samples = carried(operand)
        if samples is None:
            continue
        if samples.axis is None:
            mark(out, samples)
            return
        axis = samples.axis + out.ndim - operand.ndim
        found = Samples(axis, samples.ids, samples.batch)
        if axis >= 0 and found.fits(out.shape):
            mark(out, found)
            return


def follow_reduction(
    source: Tensor, result: Tensor, axes: tuple[int, ...], keepdim: bool
) -> Tensor:
    """A sum over axes has its source's samples, on an axis that others left."""
    samples = carried(source)
    if samples is None or samples.axis in axes:
        if carried(result) is not None:
            del result._samples  # type: ignore[attr-defined]
        return result
    shift = 0 if keepdim or samples.axis is None else sum(a < samples.axis for a in axes)
    axis = None if samples.axis is None else samples.axis - shift
    return mark(result, Samples(axis, samples.ids, samples.batch))


def follow_einsum(equation: str, operands: tuple[Tensor, ...], out: Tensor) -> None:
    """An einsum's result has its operands' samples where their letter stands."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow or "." in equation:
        return
    for subscripts, operand in zip(inputs.split(","), operands, strict=True):
        samples = carried(operand)
        if samples is not None and samples.axis is not None:
            axis = output.find(subscripts[samples.axis])
            if axis >= 0:
                mark(out, Samples(axis, samples.ids, samples.batch))
                return
            if carried(out) is not None:
                del out._samples  # type: ignore[attr-defined]


def follow_move(name: str, func: Any, args: Any, kwargs: Any, result: Any) -> None:
    """Carry the samples through a move, by running it on their ids."""
    source = args[0] if args else None
    if not isinstance(source, Tensor):
        parts = [t for t in tensors_in((source,)) if carried(t) is not None]
        if parts and isinstance(result, Tensor):
            follow_parts(name, parts, result)
        return
    samples = carried(source)
    if samples is None or name == "__setitem__":
        return
    if name in FILLS:
        follow_operands((source,), result)
        return
    if name in CHOOSES and any(isinstance(value, Tensor) for value in args[1:2]):
        follow_operands((source,), result)
        return
    if name in RESHAPES and isinstance(result, Tensor):
        found = folded(samples, source.shape, result.shape)
        if found is not None:
            mark(result, found)
            return
    if samples.axis is None:
        for out in tensors_in((result,)):
            mark(out, samples)
        return
    try:
        with torch.no_grad():
            plain = torch.Tensor.reshape if name == "view" else func
            ids = moved(samples, plain, source, args[1:], kwargs)
    except (RuntimeError, TypeError, IndexError):
        return
    for out, whose in zip(tensors_in((result,)), tensors_in((ids,)), strict=False):
        if out.shape == whose.shape:
            found = gathered(whose, samples.batch)
            if found is not None:
                mark(out, found)


def follow_parts(name: str, parts: list[Tensor], result: Tensor) -> None:
    """A concatenation has its parts' samples, on an axis that it did not lengthen."""
    known = [found for found in map(carried, parts) if found is not None]
    samples = max(known, key=lambda found: len(found.ids.unique()))
    if samples.axis is None:
        mark(result, samples)
        return
    stacked = result.ndim == parts[0].ndim + 1
    for axis in [samples.axis, samples.axis + 1] if stacked else [samples.axis]:
        kept = Samples(axis, samples.ids, samples.batch)
        if kept.fits(result.shape):
            mark(result, kept)
            return
    if result.ndim == parts[0].ndim:
        ids = [found.ids for found in known]
        joined = Samples(samples.axis, torch.cat(ids), samples.batch)
        if len(ids) == len(parts) and joined.fits(result.shape):
            mark(result, joined)


def samples_of(values: tuple[Tensor, ...]) -> Samples | None:
    """Whose each index of some values' result is, or None where that was lost."""
    shape = torch.broadcast_shapes(*(value.shape for value in values))
    for value in values:
        found = carried(value)
        if found is not None and found.axis is not None:
            axis = found.axis + len(shape) - value.ndim
            found = Samples(axis, found.ids, found.batch)
        if found is not None and found.fits(shape):
            return found
    return None


def sample_axis(value: Tensor, batch: int) -> int | None:
    """Which of a sequence's first two axes counts the samples, one index a sample."""
    if batch == 1:
        return next((axis for axis in (0, 1) if value.shape[axis] == 1), None)
    samples = samples_of((value,))
    known = samples is not None and samples.axis in (0, 1) and samples.plain
    return samples.axis if samples is not None and known else None


def sequence_first(value: Tensor, batch: int) -> bool:
    """Whether a sequence's second axis counts the samples, or folds of them."""
    if batch == 1 and 1 in value.shape[:2]:
        return value.shape[0] != 1
    samples = samples_of((value,))
    return samples is not None and samples.axis == 1


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among a call's arguments, in lists and tuples too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
