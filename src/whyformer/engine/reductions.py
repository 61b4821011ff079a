"""Sums and means over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.local import Autograd
from whyformer.engine.samples import Samples


class Reduction(Autograd):
    """A sum or mean over axes."""

    kind = "reduction"
    linear = True

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        axes: tuple[int, ...],
        keepdim: bool,
        samples: Samples,
    ) -> None:
        super().__init__(name, call)
        self.axes = axes
        self.keepdim = keepdim
        whole = Samples(None, samples.ids, samples.batch)
        self.samples = whole if samples.axis in axes else samples

    @property
    def samples_of_output(self) -> Samples:
        samples = self.samples
        if samples.axis is None or self.keepdim:
            return samples
        axis = samples.axis - sum(axis < samples.axis for axis in self.axes)
        return Samples(axis, samples.ids, samples.batch)

    @property
    def terms(self) -> int:
        return int(torch.tensor([self.shapes[0][axis] for axis in self.axes]).prod())

    def total(self) -> Tensor:
        return self.x.sum(self.axes, keepdim=self.keepdim)

    def spread(self, s: Tensor, to_input: bool = True) -> Tensor:
        """Put the summed axes back, as long as the input's or of length one."""
        if not self.keepdim and s.ndim:
            for axis in self.axes:
                s = s.unsqueeze(axis)
        return s.expand(self.shapes[0]) if to_input else s
