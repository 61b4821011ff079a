"""Operations that autograd differentiates itself: each has a small graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.operations import Operation, Saved, Slots

#: activation functions with f(0) = 0
VANISHING = frozenset("celu elu gelu hardswish leaky_relu mish relu selu silu tanh".split())


class Autograd(Operation):
    """A call with a small graph, which gives its gradient.

    A lean one keeps its operands alone, and makes the graph when it is asked for; where the
    derivative is the same everywhere, it keeps not even these.
    """

    #: whether the derivative is the same everywhere
    linear = False
    #: of a lean one's operands, against being overwritten
    _guards: Sequence[Saved] = ()

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call

    def run(self, *operands: Tensor) -> Any:
        if self.lean:
            with torch.no_grad():
                result = self.call(*operands)
            self._keep(operands)
        else:
            self.operands = [t.detach().requires_grad_() for t in operands]
            self.outputs = self.graph()
            result = self.outputs[0] if self.single else self.outputs
        if isinstance(result, tuple | list):
            return tuple(t.detach() if isinstance(t, Tensor) else t for t in result)
        return result.detach() if isinstance(result, Tensor) else result

    def _keep(self, operands: Sequence[Tensor]) -> None:
        if self.linear:
            operands = [t.new_zeros(()).expand(t.shape) for t in operands]
        else:
            self._guards = [Saved(t) for t in operands]
        self.operands = [t.detach().requires_grad_() for t in operands]

    def graph(self) -> Sequence[Tensor]:
        """The outputs, connected with the operands."""
        for guard in self._guards:
            guard.get()
        with torch.enable_grad():
            result = self.call(*self.operands)
        self.single = not isinstance(result, tuple | list)
        return (result,) if self.single else tuple(result)

    @property
    def x(self) -> Tensor:
        assert not (self.lean and self.linear), f"a lean {self.name} keeps no values"
        return self.operands[0].detach()

    @property
    def y(self) -> Tensor:
        return self.call(self.x) if self.lean else self.outputs[0].detach()

    def gradient(self, *slots: Tensor | None) -> Slots:
        outputs = self.graph() if self.lean else self.outputs
        pairs = [
            (y, s) for y, s in zip(outputs, slots, strict=True) if s is not None and y.requires_grad
        ]
        if not pairs:
            return (None,) * self.count
        return torch.autograd.grad(
            [y for y, _ in pairs],
            self.operands,
            [s for _, s in pairs],
            retain_graph=True,
            allow_unused=True,
        )


class Generic(Autograd):
    """What has no kind of its own."""


class Scale(Autograd):
    """A value times a constant, element by element; dropout is one."""

    kind = "scale"
    transparent = True
    linear = True


class Softmax(Operation):
    """softmax(x) over one axis, of scores that a mask may have been added to."""

    kind = "softmax"
    name = "softmax"

    def __init__(
        self,
        call: Callable[[Tensor], Tensor],
        axis: int,
        scores: Callable[[], Tensor] | None = None,
    ) -> None:
        """``scores`` makes the operand again, where it is not to be kept."""
        self.call = call
        self.axis = axis
        self._scores = scores
        #: whether the result weighs values: attention
        self.attends = False

    def run(self, *operands: Tensor) -> Tensor:
        (x,) = operands
        y = self.call(x)
        self._y = Saved(y)
        if self._scores is None:
            self._x = Saved(x)
        return y

    @property
    def x(self) -> Tensor:
        return self._x.get() if self._scores is None else self._scores()

    @property
    def y(self) -> Tensor:
        return self._y.get(remake=lambda: self.call(self.x))

    def gradient(self, *slots: Tensor | None) -> Slots:
        (slot,) = slots
        assert slot is not None
        return (torch._softmax_backward_data(slot, self.y, self.axis, slot.dtype),)


# -- normalisation


class Normalisation(Autograd):
    """layer_norm, rms_norm, group_norm, instance_norm, batch_norm on statistics of the batch.

    ``statistics`` gives the mean that is subtracted, or None, and one over the deviation.
    ``weight`` and ``bias`` are shaped to multiply the value.
    """

    kind = "normalisation"

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        statistics: Callable[[Tensor], tuple[Tensor | None, Tensor]],
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> None:
        super().__init__(name, call)
        self.statistics = statistics
        self.weight = weight
        self.bias = bias

    def constant_deviation(self, slot: Tensor) -> Slots:
        with torch.enable_grad():
            x = self.x.requires_grad_()
            mean, scale = self.statistics(x)
            shifted = x if mean is None else x - mean
            scaled = shifted * scale.detach()
            if self.weight is not None:
                scaled = scaled * self.weight
            return torch.autograd.grad(scaled, x, slot)

    def constant_terms(self, *slots: Tensor | None) -> list[Tensor]:
        return [] if self.bias is None or slots[0] is None else [slots[0] * self.bias]


class OnItself(Autograd):
    """A value by another that was computed from it; ``subject`` is its place among the operands."""

    def __init__(self, name: str, call: Callable[..., Any], subject: int) -> None:
        super().__init__(name, call)
        self.subject = subject

    def to_subject(self, slot: Tensor) -> Slots:
        return (slot, None) if self.subject == 0 else (None, slot)

    def constant_other(self, slot: Tensor) -> Slots:
        """The derivative by the subject alone."""
        found = self.gradient(slot)
        return (found[0], None) if self.subject == 0 else (None, found[1])


class ByStatistic(OnItself):
    """x * s, x / s or x - s, s computed from x by a mean: part of a norm that is spelled out."""

    kind = "normalisation"

    def constant_deviation(self, slot: Tensor) -> Slots:
        return self.gradient(slot) if self.name == "sub" else self.constant_other(slot)


# -- activations and gates


class Pointwise(Autograd):
    """An activation function, element by element; ``varies``: with parameters for each."""

    kind = "activation"

    def __init__(self, name: str, call: Callable[..., Any], varies: bool = False) -> None:
        super().__init__(name, call)
        self.varies = varies

    def gradient(self, *slots: Tensor | None) -> Slots:
        (slot,) = slots
        if not self.current.abreast or slot is None or self.shapes != (slot.shape,):
            return super().gradient(slot)
        alone = super().gradient
        (slope,) = self.shared("slope", lambda: alone(slot.new_ones(slot.shape)))
        return (None if slope is None else slot * slope,)

    def at_zero(self) -> Tensor:
        """f(0), of one element where it is the same for all."""
        return self.call(self.x * 0 if self.varies else self.x.new_zeros(1)).detach()

    def constant_gate(self, slot: Tensor) -> Slots:
        """slot * (f(x) - f(0)) / x; where x is small, the slope half way to zero."""
        x, y = self.x, self.y
        if self.name in VANISHING and not self.varies:
            gate = torch.where(x == 0, self.slope(x.new_zeros(())), y / x)
            return (gate.mul_(slot),)
        (derivative,) = self.gradient(slot)
        if y.shape != x.shape or derivative is None:
            return (derivative,)
        start = self.at_zero()
        bound = torch.where(start.any(), 1e-4 if x.dtype is torch.float64 else 1e-2, 0.0)
        gate = torch.where(x.abs() <= bound, self.slope(x / 2), (y - start) / x)
        return (torch.where(start.isfinite().all(), slot * gate, derivative),)

    def slope(self, x: Tensor) -> Tensor:
        """f'(x) of other values."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.call(x).sum(), x)[0]

    def constant_terms(self, *slots: Tensor | None) -> list[Tensor]:
        return [] if slots[0] is None else [slots[0] * self.at_zero()]


class SelfGate(OnItself):
    """x f(x), f element by element: an activation function that is spelled out."""

    kind = "activation"

    def constant_gate(self, slot: Tensor) -> Slots:
        return self.constant_other(slot)


class Gate(Autograd):
    """u * v or u / v element by element, both activations.

    ``gate`` is the operand that an activation function made, where one alone is.
    """

    kind = "gate"

    def __init__(self, name: str, call: Callable[..., Any], gate: int | None) -> None:
        super().__init__(name, call)
        self.gate = gate

    @property
    def quotient(self) -> bool:
        return self.name == "div"
