"""Operations that know both of their backwards: the gradient and the relevance.

Each object stands for one call that the model made. ``Step`` puts it into autograd's
graph, where relevance rides in the gradient's slot while ``Switch.rules`` is set.
Everything else a model does (reshapes, selections, concatenations) moves values, and
the gradient of moving values is the relevance of moving values.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules import Rules
from whyformer.errors import ModelError


class Scratch(threading.local):
    """Memory that is lent again and again, to each thread its own.

    Fresh memory costs a page fault for every 4 KiB, more than the arithmetic on it.
    """

    def __init__(self) -> None:
        self._buffers: dict[Any, Tensor] = {}
        self._views: dict[Any, Tensor] = {}

    def lend(self, purpose: str, like: Tensor) -> Tensor:
        """Memory of a tensor's shape, valid until the next request for the same purpose."""
        place = (purpose, like.dtype, like.device)
        view = self._views.get((place, like.shape))
        if view is None:
            buffer = self._buffers.get(place)
            if buffer is None or buffer.numel() < like.numel():
                self._views = {k: v for k, v in self._views.items() if k[0] != place}
                buffer = torch.empty(like.numel(), dtype=like.dtype, device=like.device)
                self._buffers[place] = buffer
            view = buffer[: like.numel()].view(like.shape)
            self._views[place, like.shape] = view
        return view


#: |weight|, given the weight and the memory for it
Absolute = Callable[[Tensor, Scratch], Tensor]


class Switch:
    """Which backward is running, shared by all operations of one recording."""

    def __init__(self, absolute: Absolute, scratch: Scratch) -> None:
        self.rules: Rules | None = None
        self.keep = False
        self.absolute = absolute
        self.scratch = scratch


class Saved:
    """A value of the forward, guarded against being overwritten in place later."""

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.detach()
        self._version = self._tensor._version

    def get(self, what: str = "a value", remake: Callable[[], Tensor] | None = None) -> Tensor:
        if self._tensor._version == self._version:
            return self._tensor
        if remake is not None:
            return remake()
        raise ModelError(
            f"{what} of shape {tuple(self._tensor.shape)} that relevance needs was overwritten "
            "since the forward: if the model itself does so (x += y, relu_), replace that by its "
            "ordinary form; if its weights were changed, record it again"
        )


class Step(torch.autograd.Function):
    """One operation in autograd's graph."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *operands: Tensor) -> Any:
        ctx.operation = operation
        return operation.run(*operands)

    @staticmethod
    def backward(ctx: Any, *slots: Tensor) -> Any:
        operation: Operation = ctx.operation
        rules = operation.switch.rules
        if rules is None:
            return None, *operation.gradient(*slots)
        return None, *operation.relevance(rules, *slots)


class Operation:
    """``run`` forwards, ``gradient`` and ``relevance`` backwards, one result an operand."""

    name = "operation"
    #: values pass through unchanged but for their scale
    transparent = False
    switch: Switch

    def run(self, *operands: Tensor) -> Any:
        raise NotImplementedError

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        raise NotImplementedError

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        raise NotImplementedError

    def scratch(self, purpose: str, like: Tensor) -> Tensor:
        return self.switch.scratch.lend(purpose, like)

    def mean_square(self, z: Tensor) -> Tensor:
        """Over the features of a value, which are its last axis."""
        if z.ndim < 2:
            return z.square()
        norm = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
        return norm.square_().div_(z.shape[-1])

    def kept(self, key: str, make: Callable[[], Tensor]) -> Tensor:
        """A value that several targets share, made once while ``Switch.keep`` is on."""
        if not self.switch.keep:
            return make()
        memory = self.__dict__.setdefault("_memory", {})
        if key not in memory:
            memory[key] = make().clone()
        return memory[key]


def adjoint(function: Callable[[Tensor], Tensor], x: Tensor, s: Tensor) -> Tensor:
    """The transpose of a linear function at x, applied to s."""
    transposed = torch.func.vjp(function, x)[1]
    return transposed(s)[0]
