"""Which of torch's sums and elementwise products is which operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.engine.following import follow_reduction
from whyformer.engine.graph import derived, made_by_activation
from whyformer.engine.handled import handles
from whyformer.engine.local import ByStatistic, Gate, Pointwise, Scale, SelfGate
from whyformer.engine.mixing import MASKED, Bias, OntoZeros, Sum
from whyformer.engine.reductions import Reduction
from whyformer.engine.schema import method_of

if TYPE_CHECKING:
    from whyformer.engine.recorder import Recorder


@handles("add", "__add__", "__radd__")
def add(rec: Recorder, func: Any, input: Any, other: Any, *, alpha: float = 1) -> Any:
    other = scaled(rec, other, alpha)
    if rec.is_activation(input) and rec.is_activation(other):
        if input.dtype != other.dtype:
            wide = torch.promote_types(input.dtype, other.dtype)
            input, other = rec_cast(rec, input, wide), rec_cast(rec, other, wide)
        for scores, mask in ((input, other), (other, input)):
            if rec.scores(scores) and bool((mask.detach() < MASKED).any()):
                return add_mask(rec, scores, mask)
        return embedding_sum(rec, rec.sum(input, other))
    activation, constant = (input, other) if rec.is_activation(input) else (other, input)
    if not isinstance(constant, Tensor):
        return rec.step(Bias(constant), activation)
    constant = constant.detach()
    mask = is_mask(constant)
    scores = rec.scores(activation, mask=mask)
    for product in scores:
        product.attend(constant, activation.shape)
    if scores:
        return rec.moved(activation, activation + constant)
    shape = torch.broadcast_shapes(activation.shape, constant.shape)
    if shape != activation.shape:
        activation = rec.moved(activation, activation.expand(shape))
    if mask:
        return embedding_sum(rec, rec.step(Bias(constant), activation))
    samples = rec.samples(activation)
    if is_bias(constant, samples.axis, activation.ndim):
        return rec.step(Bias(constant), activation)
    result = rec.step(Sum(samples, constant), activation)
    return embedding_sum(rec, result)


def add_mask(rec: Recorder, scores: Tensor, mask: Tensor) -> Tensor:
    """Scores and a mask that depends on the input: a sum, but where the mask hides them."""
    hidden = mask.detach() < MASKED
    lowest = scores.detach() + mask.detach()
    shown = rec.moved(mask, mask.masked_fill(hidden, 0))
    with rec:
        return torch.where(hidden, lowest, scores + shown)


def add_any(rec: Recorder, u: Any, v: Any) -> Any:
    if rec.is_activation(u) or rec.is_activation(v):
        return add(rec, torch.add, u, v)
    return u + v


def rec_cast(rec: Recorder, value: Tensor, dtype: torch.dtype) -> Tensor:
    return value if value.dtype == dtype else rec.moved(value, value.to(dtype))


@handles("index_add")
def index_add(
    rec: Recorder, func: Any, input: Tensor, dim: int, index: Tensor, source: Tensor,
    *, alpha: float = 1,
) -> Any:  # fmt: skip
    """A sum at some places; the others are as they were.

    Places that hold nothing yet get what is put there: which expert comes first to a token must
    not depend on the other samples.
    """
    if len(index.unique()) != len(index):
        return rec.generic("index_add", func, (input, dim, index, source), {"alpha": alpha})
    held = input.detach().index_select(dim, index).movedim(dim, 0)
    empty = ~held.flatten(1).any(1) if held.ndim > 1 else held == 0
    result = input
    for chosen, combine in ((empty, onto_zeros), (~empty, add_any)):
        if not bool(chosen.any()):
            continue
        with rec:
            rows = source.index_select(dim, chosen.nonzero().flatten())
            before = input.index_select(dim, index[chosen])
        there = combine(rec, scaled(rec, rows, alpha), before)
        with rec:
            result = result.index_copy(dim, index[chosen], there)
    return result


def onto_zeros(rec: Recorder, rows: Tensor, zeros: Tensor) -> Tensor:
    if not rec.is_activation(rows):
        return rec.moved(zeros, zeros + rows)
    if not rec.is_activation(zeros):
        return rows
    laid: Tensor = rec.step(OntoZeros(), rows, zeros)
    return laid


@handles("masked_fill")
def masked_fill(rec: Recorder, func: Any, input: Tensor, mask: Tensor, value: Any) -> Any:
    for product in rec.scores(input, mask=True) if rec.is_activation(input) else ():
        product.attend(~mask, input.shape)
    return rec.moved(input, torch.masked_fill(input, mask, value))


@handles("where")
def where(rec: Recorder, func: Any, condition: Tensor, *values: Any) -> Any:
    if len(values) < 2:
        return func(condition, *values)
    input, other = values
    if method_of(func):  # input.where(condition, other)
        condition, input = input, condition
    for value, shown in ((input, condition), (other, ~condition)):
        both = rec.is_activation(input) and rec.is_activation(other)
        for product in (
            rec.scores(value, mask=True) if rec.is_activation(value) and not both else ()
        ):
            product.attend(shown, value.shape)
    result = torch.where(condition, input, other)
    return rec.moved(input if rec.is_activation(input) else other, result)


@handles("sub", "__sub__", "subtract")
def sub(rec: Recorder, func: Any, input: Any, other: Any, *, alpha: float = 1) -> Any:
    both = rec.is_activation(input) and rec.is_activation(other)
    if both and alpha == 1 and is_statistic(other, input):
        return rec.local(ByStatistic, "sub", torch.sub, (input, other), {}, subject=0)
    return add_any(rec, input, scaled(rec, other, -alpha))


@handles("__rsub__", "rsub")
def rsub(rec: Recorder, func: Any, input: Any, other: Any, *, alpha: float = 1) -> Any:
    return sub(rec, func, other, scaled(rec, input, alpha))


@handles("sum", "mean")
def reduction(rec: Recorder, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    dim = args[0] if args else kwargs.get("dim", kwargs.get("axis"))
    keepdim = args[1] if len(args) > 1 else kwargs.get("keepdim", kwargs.get("keepdims", False))
    dims = (
        range(input.ndim) if dim is None or dim == () else (dim,) if isinstance(dim, int) else dim
    )
    axes = tuple(sorted(axis % input.ndim for axis in dims)) if input.ndim else ()
    result = rec.local(
        Reduction, func.__name__, func, (input, *args), kwargs,
        axes=axes, keepdim=keepdim, samples=rec.samples(input),
    )  # fmt: skip
    return follow_reduction(input, result, axes, keepdim)


def is_mask(constant: Tensor) -> bool:
    """Whether a constant shows some values and hides others: zero, or very negative."""
    return bool(((constant == 0) | (constant < MASKED)).all())


def is_bias(constant: Tensor, samples: int | None, ndim: int) -> bool:
    """A vector added to every row, or a number: neither takes a share of the relevance.

    That it was expanded over the samples makes no difference.
    """
    beside = None if samples is None else samples - ndim + constant.ndim
    axes = range(constant.ndim - 1)
    return all(constant.shape[axis] == 1 or axis == beside for axis in axes)


def embedding_sum(rec: Recorder, result: Tensor) -> Tensor:
    """Word, position and segment embeddings are one input: a text is read at their sum."""
    for root in rec.seen.roots:
        if (
            root.ids is not None
            and result.shape == root.value.shape
            and only_sums(result, root.leaf)
        ):
            root.value = result
    return result


def only_sums(tensor: Tensor, leaf: Tensor) -> bool:
    """Whether nothing but sums and scales lies between a tensor and one embedding."""
    pending, found = [tensor.grad_fn], False
    while pending:
        node: Any = pending.pop()
        if hasattr(node, "variable"):
            if node.variable is not leaf:
                return False
            found = True
            continue
        operation = getattr(node, "operation", None)
        if operation is not None and operation.name != "sum" and not operation.transparent:
            return False
        pending.extend(parent for parent, _ in node.next_functions if parent is not None)
    return found


# -- elementwise products


def is_statistic(value: Tensor, source: Tensor) -> bool:
    """Whether a value tells one number about each row of another, or all: its mean, its highest."""
    expanded = 0 in value.stride() and value.numel() > 1
    if value.ndim == 0 and source.ndim > 0:
        return derived(value, source) == "statistic"
    if value.ndim != source.ndim or (value.shape == source.shape and not expanded):
        return False
    reduced = all(a in (1, b) for a, b in zip(value.shape, source.shape, strict=True))
    return reduced and derived(value, source) == "statistic"


@handles("mul", "__mul__", "__rmul__", "multiply")
def mul(rec: Recorder, func: Any, input: Any, other: Any) -> Any:
    if not (rec.is_activation(input) and rec.is_activation(other)):
        return rec.local(Scale, "scale", torch.mul, (input, other), {})
    for subject, (value, factor) in enumerate(((input, other), (other, input))):
        if is_statistic(factor, value):
            return rec.local(ByStatistic, "mul", torch.mul, (input, other), {}, subject=subject)
        if value.shape == factor.shape and derived(factor, value) == "pointwise":
            return rec.local(SelfGate, "mul", torch.mul, (input, other), {}, subject=subject)
    return gate(rec, "mul", torch.mul, input, other)


def gate(rec: Recorder, name: str, func: Any, u: Tensor, v: Tensor, **options: Any) -> Tensor:
    made = [made_by_activation(u), made_by_activation(v)]
    which = made.index(True) if sum(made) == 1 else None
    return rec.local(Gate, name, func, (u, v), options, gate=which)


@handles("div", "__truediv__", "__div__", "true_divide", "divide")
def div(rec: Recorder, func: Any, input: Any, other: Any, **kwargs: Any) -> Any:
    if rec.is_activation(input) and rec.is_activation(other):
        if is_statistic(other, input):
            return rec.local(ByStatistic, "div", torch.div, (input, other), kwargs, subject=0)
        return gate(rec, "div", torch.div, input, other, **kwargs)
    if rec.is_activation(input):
        return rec.local(Scale, "scale", torch.div, (input, other), kwargs)
    return rec.local(Pointwise, "reciprocal", torch.div, (input, other), kwargs)


@handles("__rdiv__", "__rtruediv__")
def rdiv(rec: Recorder, func: Any, input: Any, other: Any) -> Any:
    return div(rec, torch.div, other, input)


@handles("neg", "negative", "__neg__")
def neg(rec: Recorder, func: Any, input: Tensor) -> Any:
    return rec.local(Scale, "scale", torch.neg, (input,), {})


def scaled(rec: Recorder, value: Any, factor: float) -> Any:
    if factor == 1:
        return value
    return mul(rec, torch.mul, value, factor) if rec.is_activation(value) else value * factor
