"""Which axis of a value counts the samples, carried along from the model's input.

A model folds its batch into windows, heads, choices or experts' rows, and moves it from axis to
axis. Sizes alone do not tell where it went: every value of a recording carries its ``Samples``,
and what moves the value moves them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Samples:
    """``ids`` says whose each index along ``axis`` is; no axis: all values are one sample's."""

    axis: int | None
    ids: Tensor
    batch: int

    @classmethod
    def first(cls, length: int, batch: int) -> Samples:
        """Of an input: one index a sample, several each, or samples of its own."""
        if length % batch:
            return cls(0, torch.arange(length), length)
        return cls(0, torch.arange(batch).repeat_interleave(length // batch), batch)

    @cached_property
    def plain(self) -> bool:
        """One index a sample, in order."""
        return self.ids.tolist() == list(range(self.batch))

    def fits(self, shape: torch.Size) -> bool:
        return self.axis is None or (self.axis < len(shape) and shape[self.axis] == len(self.ids))

    def total(self, values: Tensor, keep: tuple[int, ...] = ()) -> Tensor:
        """The sum over one sample, of a shape that scales the values; some axes may be kept."""
        axes = [i for i in range(values.ndim) if i != self.axis and i not in keep]
        return self._gathered(values.sum(axes, keepdim=True) if axes else values, "sum")

    def highest(self, values: Tensor) -> Tensor:
        """The highest value of one sample, of a shape that scales the values."""
        axes = [i for i in range(values.ndim) if i != self.axis]
        return self._gathered(values.amax(axes, keepdim=True) if axes else values, "amax")

    def _gathered(self, each: Tensor, how: str) -> Tensor:
        """What the indices of one sample have together, for every index along the axis."""
        if self.axis is None or self.plain:
            return each
        ids, shape, line = self.ids.to(each.device), list(each.shape), [1] * each.ndim
        shape[self.axis], line[self.axis] = self.batch, -1
        found = each.new_zeros(shape).scatter_reduce_(
            self.axis, ids.view(line).expand_as(each), each, how, include_self=False
        )
        return found.index_select(self.axis, ids)

    def spread(self, shape: torch.Size) -> Tensor:
        """The ids as a tensor of a value's shape, in no memory of its own.

        Of a single sample the places along the axis, so that the axis can be followed.
        """
        assert self.axis is not None
        line = [1] * len(shape)
        line[self.axis] = len(self.ids)
        ids = self.ids if self.batch > 1 else torch.arange(len(self.ids))
        return ids.view(line).expand(shape)


def gathered(ids: Tensor, batch: int) -> Samples | None:
    """The samples of a value, from a tensor that says whose each element is."""
    if ids.numel() == 0:
        return None
    alone = ids[tuple(slice(None if step else 1) for step in ids.stride())]
    varying = [
        axis
        for axis, size in enumerate(alone.shape)
        if size > 1 and not bool((alone == alone.narrow(axis, 0, 1)).all())
    ]
    if len(varying) > 1:
        return None
    if not varying:
        whose = ids.flatten()[:1].long()
        if batch == 1:
            return Samples(None, torch.zeros_like(whose), batch)
        return Samples(0, whose.expand(ids.shape[0]), batch) if ids.ndim else None
    (axis,) = varying
    line = ids
    for other in reversed(range(ids.ndim)):
        if other != axis:
            line = line.select(other, 0)
    return Samples(axis, line.long() if batch > 1 else torch.zeros_like(line), batch)


def moved(
    samples: Samples, func: Callable[..., Any], source: Tensor, args: Any, kwargs: Any
) -> Any:
    """Run a move on the ids of its source: what it returns says whose each element is."""
    ids = samples.spread(source.shape)
    if source.device.type != "cpu":
        args = [a.cpu() if isinstance(a, Tensor) else a for a in args]
    return func(ids, *args, **kwargs)


def folded(samples: Samples, shape: torch.Size, into: torch.Size) -> Samples | None:
    """The samples behind a reshape, where the batch is the outermost axis that counts."""
    if samples.axis is None:
        return samples
    if any(size != 1 for size in shape[: samples.axis]):
        return None
    alone = samples.batch == 1 and into[:1] == (1,)
    axis = 0 if alone else next((i for i, size in enumerate(into) if size != 1), 0)
    inner = torch.Size(shape[samples.axis + 1 :]).numel()
    block = torch.Size(into[axis + 1 :]).numel()
    if inner == 0 or block == 0:
        return None
    if inner % block == 0:
        return Samples(axis, samples.ids.repeat_interleave(inner // block), samples.batch)
    rows = block // inner
    if block % inner or len(samples.ids) % rows:
        return None
    grouped = samples.ids.view(-1, rows)
    if not bool((grouped == grouped[:, :1]).all()):
        return None
    return Samples(axis, grouped[:, 0], samples.batch)
