"""Operations that know both of their backwards: the gradient and the relevance.

Each object stands for one call that the model made. ``Step`` puts it into autograd's
graph, where relevance rides in the gradient's slot while ``Switch.rules`` is set.
Everything else a model does (reshapes, selections, concatenations) moves values, and
the gradient of moving values is the relevance of moving values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules import Rules
from whyformer.errors import ModelError


#: an additive mask below this hides a score
MASKED = -1000.0

#: |weight|, given the weight and a lender of memory
Absolute = Callable[[Tensor, Callable[[str, Tensor], Tensor]], Tensor]


class Switch:
    """Which backward is running, shared by all operations of one recording."""

    def __init__(self, absolute: Absolute) -> None:
        self.rules: Rules | None = None
        self.keep = False
        self.absolute = absolute
        self._scratch: dict[str, Tensor] = {}

    def scratch(self, purpose: str, like: Tensor) -> Tensor:
        """Memory of a tensor's shape, valid until the next request for the same purpose.

        Fresh memory costs a page fault for every 4 KiB, more than the arithmetic on it.
        """
        size = like.numel()
        buffer = self._scratch.get(purpose)
        if buffer is None or buffer.numel() < size or buffer.dtype != like.dtype:
            self._scratch[purpose] = buffer = torch.empty(
                size, dtype=like.dtype, device=like.device
            )
        return buffer[:size].view(like.shape)

    def release(self) -> None:
        self._scratch.clear()


class Saved:
    """A value of the forward, guarded against being overwritten in place later."""

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.detach()
        self._version = self._tensor._version

    def get(self, remake: Callable[[], Tensor] | None = None) -> Tensor:
        if self._tensor._version == self._version:
            return self._tensor
        if remake is not None:
            return remake()
        raise ModelError(
            f"the model overwrites in place a value of shape {tuple(self._tensor.shape)} that its "
            "relevance still needs; replace that in-place operation (x += y, relu_ and the like) "
            "by its ordinary form"
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
        return self.switch.scratch(purpose, like)

    def mean_square(self, z: Tensor) -> Tensor:
        """Over the last axis, which stays."""
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


# -- learned matrices


class Learned(Operation):
    """A linear map by a constant: y = apply(x, weight) + bias."""

    name = "learned"

    def __init__(
        self,
        call: Callable[[Tensor], Tensor],
        apply: Callable[[Tensor, Tensor], Tensor],
        weight: Tensor,
        bias: Tensor | None = None,
        reads_pixels: bool = False,
    ) -> None:
        self.call = call
        self.apply = apply
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self.reads_pixels = reads_pixels

    def run(self, x: Tensor) -> Tensor:
        y = self.call(x)
        self._x, self._y = Saved(x), Saved(y)
        return y

    @property
    def x(self) -> Tensor:
        return self._x.get()

    @property
    def y(self) -> Tensor:
        return self._y.get(lambda: self.call(self.x))

    def transpose(self, s: Tensor, weight: Tensor, scratch: str | None = None) -> Tensor:
        """The map's adjoint, in scratch memory if that is named."""
        return adjoint(lambda x: self.apply(x, weight), self.x, s)

    def unbiased(self, share: float) -> Tensor:
        """x w, with a share of the bias added: what subtracting the bias may have lost."""
        return self.apply(self.x, self.weight) + 1e-12

    def accumulate(self, total: Tensor, x: Tensor, weight: Tensor, factor: float) -> Tensor:
        return total.add_(self.apply(x, weight), alpha=factor)

    def absolute_weight(self) -> Tensor:
        return self.switch.absolute(self.weight, self.scratch)

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return (self.transpose(slots[0], self.weight),)

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        rule = rules.pixels if self.reads_pixels else rules.learned
        return (rule(self, slots[0], rules.divide_learned),)


class Linear(Learned):
    """y = x W^T + b on rows: the rows that carry nothing backwards are skipped."""

    name = "linear"

    def __init__(
        self,
        call: Callable[[Tensor], Tensor],
        weight: Tensor,
        bias: Tensor | None = None,
        reads_pixels: bool = False,
    ) -> None:
        super().__init__(call, torch.nn.functional.linear, weight, bias, reads_pixels)

    def transpose(self, s: Tensor, weight: Tensor, scratch: str | None = None) -> Tensor:
        if scratch is None:
            return s @ weight
        return torch.matmul(s, weight, out=self.scratch(scratch, self.x))

    def unbiased(self, share: float) -> Tensor:
        floor: Tensor | float = 1e-12
        if self.bias is not None:
            floor = (share * self.bias.abs().max() + 1e-12) - self.bias
        return torch.add(self.y, floor, out=self.scratch("z", self.y))

    def accumulate(self, total: Tensor, x: Tensor, weight: Tensor, factor: float) -> Tensor:
        flat = total.view(-1, total.shape[-1])
        flat.addmm_(x.reshape(-1, x.shape[-1]), weight.mT, alpha=factor)
        return total

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        rows = live_rows(slots[0])
        if rows is None:
            return (slots[0] @ self.weight,)
        return (self._scatter(rows, _flat(slots[0])[rows] @ self.weight),)

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        rows = None if self.reads_pixels else live_rows(slots[0])
        if rows is None:
            return super().relevance(rules, *slots)
        part = LinearRows(self, rows)
        values = rules.learned(part, _flat(slots[0])[rows], rules.divide_learned)
        return (self._scatter(rows, values),)

    def _scatter(self, rows: Tensor, values: Tensor) -> Tensor:
        full = torch.zeros_like(self.x, memory_format=torch.contiguous_format)
        _flat(full)[rows] = values
        return full


class LinearRows(Linear):
    """Some rows of a ``Linear``, for its rules to work on."""

    def __init__(self, whole: Linear, rows: Tensor) -> None:
        super().__init__(whole.call, whole.weight, whole.bias)
        self.switch = whole.switch
        self._x, self._y = Saved(_flat(whole.x)[rows]), Saved(_flat(whole.y)[rows])

    def kept(self, key: str, make: Callable[[], Tensor]) -> Tensor:
        return make()


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def live_rows(slot: Tensor) -> Tensor | None:
    """The rows that are not all zero, or None when most are alive.

    Above the last attention only the pooled token's row carries anything.
    """
    flat = _flat(slot)
    count = flat.shape[0]
    if count < 4 or bool(flat[[count // 2, -1]].any(-1).all()):
        return None
    rows = flat.any(-1).nonzero().squeeze(-1)
    return rows if 2 * len(rows) <= count else None


# -- activations with activations


class Sum(Operation):
    """u + v, both activations; or u + constant, whose share is dropped."""

    name = "sum"

    def __init__(self, batch_axis: int | None, constant: Tensor | None = None) -> None:
        self.batch_axis = batch_axis
        self.constant = constant

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands if self.constant is None else (operands[0], self.constant.detach())
        out = u + v
        self._u, self._v, self._out = Saved(u), Saved(v), Saved(out)
        return out

    @property
    def u(self) -> Tensor:
        return self._u.get()

    @property
    def v(self) -> Tensor:
        return self._v.get()

    @property
    def output(self) -> Tensor:
        return self._out.get(lambda: self.u + self.v)

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return (slots[0], slots[0]) if self.constant is None else (slots[0],)

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        both = rules.sum(self, slots[0], rules.divide)
        return both if self.constant is None else both[:1]


class Product(Operation):
    """scale * (u @ v), both activations: Q K^T and A V.

    Everything is kept as stacks of matrices, so that no product has to lay them out again.
    """

    name = "product"

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        #: of scores, those that the softmax is shown; None: all
        self.attended: Tensor | None = None

    def attend(self, mask: Tensor, shape: Sequence[int]) -> None:
        """Note an additive or boolean mask (True: attend) on the scores that this product is."""
        attended = mask if mask.dtype is torch.bool else mask > MASKED
        if bool(attended.all()):
            return
        attended = attended.expand(*shape).reshape(self._out.get().shape)
        self.attended = attended if self.attended is None else attended & self.attended

    def mean_square(self, z: Tensor) -> Tensor:
        """Padding must not matter: scores that are masked out are left out."""
        if self.attended is None:
            return super().mean_square(z)
        total = z.masked_fill(~self.attended, 0).square_().sum(-1, keepdim=True)
        return total.div_(self.attended.sum(-1, keepdim=True).clamp_(min=1))

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands
        lead = torch.broadcast_shapes(u.shape[:-2], v.shape[:-2])
        self._lead = lead
        u, v = (stack(t.detach().expand(*lead, *t.shape[-2:])) for t in (u, v))
        out = torch.bmm(u if self.scale == 1.0 else u * self.scale, v)
        self._u, self._v, self._out = Saved(u), Saved(v), Saved(out)
        return self.unstack(out)[0]

    @property
    def u(self) -> Tensor:
        return self._u.get()

    @property
    def v(self) -> Tensor:
        return self._v.get()

    @property
    def output(self) -> Tensor:
        return self._out.get(lambda: torch.bmm(self.u * self.scale, self.v))

    def left(self, s: Tensor) -> Tensor:
        return torch.bmm(s, self.v.mT)

    def right(self, s: Tensor) -> Tensor:
        if self.v.stride(-2) == 1:
            return torch.bmm(s.mT, self.u).mT
        return torch.bmm(self.u.mT, s)

    def unstack(self, *parts: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.unflatten(0, self._lead) if self._lead else part[0] for part in parts)

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        s = stack(slots[0])
        left, right = self.left(s), self.right(s)
        if self.scale != 1.0:
            left.mul_(self.scale), right.mul_(self.scale)
        return self.unstack(left, right)

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return self.unstack(*rules.product(self, stack(slots[0]), rules.divide))


def stack(matrices: Tensor) -> Tensor:
    """(..., m, n) as (stack, m, n); a transposed view stays one."""
    if matrices.stride(-2) == 1 and matrices.stride(-1) != 1:
        return matrices.mT.reshape(-1, matrices.shape[-1], matrices.shape[-2]).mT
    return matrices.reshape(-1, *matrices.shape[-2:])


class Contraction(Product):
    """A product of two activations that is written as an einsum."""

    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation

    def run(self, *operands: Tensor) -> Tensor:
        u, v = operands
        out = torch.einsum(self.equation, u, v)
        self._u, self._v, self._out = Saved(u), Saved(v), Saved(out)
        return out

    @property
    def output(self) -> Tensor:
        return self._out.get(lambda: torch.einsum(self.equation, self.u, self.v))

    def left(self, s: Tensor) -> Tensor:
        return adjoint(lambda u: torch.einsum(self.equation, u, self.v), self.u, s)

    def right(self, s: Tensor) -> Tensor:
        return adjoint(lambda v: torch.einsum(self.equation, self.u, v), self.v, s)

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return self.left(slots[0]), self.right(slots[0])

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return rules.product(self, slots[0], rules.divide)


def adjoint(function: Callable[[Tensor], Tensor], x: Tensor, s: Tensor) -> Tensor:
    """The transpose of a linear function at x, applied to s."""
    _, transposed = torch.func.vjp(function, x)
    return transposed(s)[0]  # type: ignore[no-any-return]


# -- what autograd differentiates itself


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


class Halves(Local):
    """u * v or u / v element by element: Eq. 6 gives R to each, its normalisation half."""

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        half = slots[0] / 2
        return half, half


class Terms(Local):
    """A sum or mean over axes."""

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        axes: tuple[int, ...],
        keepdim: bool,
        batch_axis: int | None,
    ) -> None:
        super().__init__(name, call)
        self.axes = axes
        self.keepdim = keepdim
        self.batch_axis = None if batch_axis in axes else batch_axis

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

    def spread(self, s: Tensor) -> Tensor:
        if not self.keepdim:
            for axis in sorted(self.axes):
                s = s.unsqueeze(axis)
        return s.expand_as(self.x)

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
