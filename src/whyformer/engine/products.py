"""Which of torch's products is which: learned maps, products of activations, attention."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.following import carried, follow_einsum
from whyformer.engine.forward_record import Convolution
from whyformer.engine.graph import made_of_softmax
from whyformer.engine.handled import handles
from whyformer.engine.learned import Learned, Linear
from whyformer.engine.matrices import Contraction, Product
from whyformer.engine.sums import add, add_any, scaled

if TYPE_CHECKING:
    from whyformer.engine.recorder import Recorder


@handles("linear")
def linear(
    rec: Recorder, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Any:
    if rec.is_activation(weight) or rec.is_activation(bias):
        product = matmul(rec, torch.matmul, input, weight if weight.ndim == 1 else weight.mT)
        return product if bias is None else add(rec, torch.add, product, bias)
    operation = Linear(lambda x: func(x, weight, bias), weight, bias, rec.from_pixels(input))
    return rec.step(operation, input)


@handles("matmul", "__matmul__", "bmm", "mm", "mv", "dot")
def matmul(rec: Recorder, func: Any, input: Tensor, other: Tensor) -> Any:
    left, right = rec.is_activation(input), rec.is_activation(other)
    if left and right:
        if input.ndim == 1 and other.ndim == 1:
            return matmul(rec, func, input.unsqueeze(0), other.unsqueeze(-1)).reshape(())
        if input.ndim == 1:
            return matmul(rec, func, input.unsqueeze(0), other).squeeze(-2)
        if other.ndim == 1:
            return matmul(rec, func, input, other.unsqueeze(-1)).squeeze(-1)
        return product(rec, input, other)
    if left and other.ndim == 2 and input.ndim >= 2:
        weight = other.detach()
        operation = Linear(lambda x: func(x, weight), weight.mT, None, rec.from_pixels(input))
        return rec.step(operation, input)
    if left:
        weight = other.detach()
        return rec.step(Learned(lambda x: func(x, weight), torch.matmul, weight), input)
    weight = input.detach()
    return rec.step(Learned(lambda x: func(weight, x), lambda x, w: w @ x, weight), other)


def product(rec: Recorder, u: Tensor, v: Tensor) -> Tensor:
    """u @ v of two activations; where one of them is a softmax's result, it is attention."""
    operation = Product()
    if rec.from_softmax(u):
        weights, back = by_sample(rec, u)
        out = rec.step(operation, back(weights), v)
        rec.saw_attention(weights, operation, out, 0, back)
    elif rec.from_softmax(v):
        with rec:
            turned = v.mT
        weights, back = by_sample(rec, turned)
        out = rec.step(operation, u, back(weights).mT)
        rec.saw_attention(weights, operation, out, 1, lambda layer: back(layer).mT)
    else:
        operation.changed = changed_side(u, v)
        out = rec.step(operation, u, v)
    return out


def by_sample(rec: Recorder, weights: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Attention weights with the samples outermost, and the way back to the model's own layout."""
    samples = carried(weights)
    axis = None if samples is None else samples.axis
    if samples is None or axis is None or axis >= weights.ndim - 2:
        return weights, lambda layer: layer
    order = samples.ids.argsort(stable=True)
    if axis == 0 and bool((order == torch.arange(len(order))).all()):
        return weights, lambda layer: layer
    order = order.to(weights.device)
    inverse = order.argsort()

    def back(layer: Tensor) -> Tensor:
        with rec if rec.is_activation(layer) else nullcontext():
            return layer.index_select(0, inverse).movedim(0, axis)

    with rec:
        return weights.movedim(axis, 0).index_select(0, order), back


def changed_side(u: Tensor, v: Tensor) -> int | None:
    """Which of a product's sides is attention that was changed behind its softmax."""
    return 0 if made_of_softmax(u) else 1 if made_of_softmax(v) else None


@handles("__rmatmul__")
def rmatmul(rec: Recorder, func: Any, input: Tensor, other: Tensor) -> Any:
    return matmul(rec, torch.matmul, other, input)


@handles("addmm", "baddbmm", "addbmm", "addmv")
def addmm(
    rec: Recorder,
    func: Any,
    input: Tensor,
    left: Tensor,
    right: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Any:
    if func.__name__.startswith("addbmm"):
        return rec.generic("addbmm", func, (input, left, right), {"beta": beta, "alpha": alpha})
    found = scaled(rec, matmul_any(rec, left, right), alpha)
    return found if beta == 0 else add_any(rec, found, scaled(rec, input, beta))


def matmul_any(rec: Recorder, left: Tensor, right: Tensor) -> Tensor:
    if rec.is_activation(left) or rec.is_activation(right):
        return matmul(rec, torch.matmul, left, right)
    return (left @ right).detach()


@handles("einsum")
def einsum(rec: Recorder, func: Any, equation: Any, *operands: Any) -> Any:
    tensors = (
        operands[0] if len(operands) == 1 and not isinstance(operands[0], Tensor) else operands
    )
    if len(tensors) != 2 or not isinstance(equation, str):
        return rec.generic("einsum", func, (equation, *operands), {})
    u, v = tensors
    left, right = rec.is_activation(u), rec.is_activation(v)
    if left and right:
        return contraction(rec, equation, u, v)
    constant = (v if left else u).detach()
    if left:
        apply = lambda x, w: torch.einsum(equation, x, w)  # noqa: E731
    else:
        apply = lambda x, w: torch.einsum(equation, w, x)  # noqa: E731
    operation = Learned(lambda x: apply(x, constant), apply, constant)
    out = rec.step(operation, u if left else v)
    follow_einsum(equation, (u, v), out)
    return out


def contraction(rec: Recorder, equation: str, u: Tensor, v: Tensor) -> Tensor:
    operation = Contraction(equation)
    subscripts = equation.replace(" ", "").partition("->")[0].split(",")
    side = 0 if rec.from_softmax(u) else 1 if rec.from_softmax(v) else None
    if side is None:
        operation.changed = changed_side(u, v)
        out = rec.step(operation, u, v)
        follow_einsum(equation, (u, v), out)
        return out
    operands = [u, v]
    order = query_and_key(operands[side], *(subscripts if side == 0 else reversed(subscripts)))
    back = [order.index(i) for i in range(len(order))]
    with rec:
        ordered = operands[side].permute(order)
    weights, home = by_sample(rec, ordered)
    native = lambda layer: home(layer).permute(back)  # noqa: E731
    operands[side] = native(weights)
    out = rec.step(operation, *operands)
    follow_einsum(equation, (u, v), out)
    rec.saw_attention(weights, operation, out, side, native)
    return out


def query_and_key(weights: Tensor, own: str, others: str) -> list[int]:
    """The order that puts an einsum's attention weights as (..., query, key): keys are summed."""
    keys = [i for i, letter in enumerate(own) if letter in others]
    queries = [i for i, letter in enumerate(own) if letter not in others]
    if "." in own or len(own) != weights.ndim or len(queries) != 1:
        return list(range(weights.ndim))
    (query,) = queries
    sizes = [i for i in keys if weights.shape[i] == weights.shape[query]]
    key = sizes[-1] if sizes else keys[-1]
    return [i for i in range(weights.ndim) if i not in (query, key)] + [query, key]


@handles("cosine_similarity")
def cosine_similarity(
    rec: Recorder, func: Any, x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8
) -> Any:
    """A product of two values of length one, which the generic rule would give nothing."""
    with rec:
        one, other = (F.normalize(x, dim=dim, eps=eps) for x in (x1, x2))
        return (one * other).sum(dim)


@handles("_grouped_mm", "grouped_mm")
def grouped_mm(
    rec: Recorder, func: Any, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Rows that are sorted by expert, each group by its expert's matrix."""
    if rec.is_activation(weight) or not rec.is_activation(input):
        return rec.generic("grouped_mm", func, (input, weight, *args), kwargs)
    matrices = weight.detach()
    apply = lambda x, w: func(x, w, *args, **kwargs)  # noqa: E731
    return rec.step(Learned(lambda x: apply(x, matrices), apply, matrices), input)


@handles("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def convolution(
    rec: Recorder,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    if rec.is_activation(weight) or rec.is_activation(bias) or not rec.is_activation(input):
        return rec.generic("convolution", func, (input, weight, bias, *args), kwargs)
    operation = Learned(
        lambda x: func(x, weight, bias, *args, **kwargs),
        lambda x, w: func(x, w, None, *args, **kwargs),
        weight,
        bias,
        reads_pixels=rec.from_pixels(input),
    )
    out = rec.step(operation, input)
    step = args[0] if args else kwargs.get("stride", 1)
    steps = step if isinstance(step, tuple | list) else [step] * (weight.ndim - 2)
    overlaps = any(size > step for size, step in zip(weight.shape[2:], steps, strict=False))
    seen = Convolution(out, overlaps, len(rec.seen.attention), tuple(steps))
    rec.seen.convolutions.append(seen)
    return out
