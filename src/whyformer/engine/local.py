"""Operations that autograd differentiates itself, and whose relevance is simple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.operations import Operation
from whyformer.engine.rules import Rules


class Local(Operation):
    """A call with a small graph of its own, which gives its gradient."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call

    def run(self, *operands: Tensor) -> Any:
        self.operands = [t.detach().requires_grad_() for t in operands]
        with torch.enable_grad():
            result = self.call(*self.operands)
        self.single = isinstance(result, Tensor)
        self.outputs: Sequence[Tensor] = (result,) if self.single else tuple(result)
        detached = tuple(t.detach() if isinstance(t, Tensor) else t for t in self.outputs)
        return detached[0] if self.single else detached

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        pairs = [(y, s) for y, s in zip(self.outputs, slots, strict=True) if y.requires_grad]
        return torch.autograd.grad(
            [y for y, _ in pairs],
            self.operands,
            [s for _, s in pairs],
            retain_graph=True,
            allow_unused=True,
        )


class Identity(Local):
    """LayerNorm, GELU, softmax, scaling: relevance passes unchanged."""

    def __init__(self, name: str, call: Callable[..., Any], transparent: bool = False) -> None:
        super().__init__(name, call)
        self.transparent = transparent

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return slots


class Elementwise(Local):
    """u * v or u / v element by element, both activations."""

    @property
    def quotient(self) -> bool:
        return self.name == "div"

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return rules.elementwise(self, slots[0])


class Terms(Local):
    """A sum or mean over axes."""

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        axes: tuple[int, ...],
        keepdim: bool,
        batch_axis: int | None,
        batch: int,
    ) -> None:
        super().__init__(name, call)
        self.axes = axes
        self.keepdim = keepdim
        self.batch_axis = None if batch_axis in axes else batch_axis
        self.batch = batch

    @property
    def x(self) -> Tensor:
        return self.operands[0].detach()

    @property
    def batch_axis_of_output(self) -> int | None:
        if self.batch_axis is None or self.keepdim:
            return self.batch_axis
        return self.batch_axis - sum(axis < self.batch_axis for axis in self.axes)

    def total(self) -> Tensor:
        return self.x.sum(self.axes, keepdim=self.keepdim)

    def spread(self, s: Tensor, to_input: bool = True) -> Tensor:
        """Put the summed axes back, as long as the input's or of length one."""
        if not self.keepdim and s.ndim:
            for axis in self.axes:
                s = s.unsqueeze(axis)
        return s.expand_as(self.x) if to_input else s

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return (rules.terms(self, slots[0], rules.divide),)


class Generic(Local):
    """Eq. 2, for what has no rule of its own: R_j = sum_i x_j dL_i/dx_j R_i / L_i."""

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        s = [
            rules.divide(self, r, y.detach()).clone() if y.requires_grad else r
            for r, y in zip(slots, self.outputs, strict=True)
        ]
        carried = self.gradient(*s)
        return tuple(
            None if g is None else x.detach() * g
            for x, g in zip(self.operands, carried, strict=True)
        )
