"""Which operation each of torch's functions is, by name.

``HANDLERS`` maps a function's name to the code that records it, called with its arguments in the
places that the operator's schema gives them. What is neither here nor in ``names`` is recorded
by the generic rule and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.engine import attention, norms
from whyformer.engine.following import follow_einsum
from whyformer.engine.graph import derived, made_by_activation
from whyformer.engine.learned import Learned, Linear
from whyformer.engine.local import (
    Autograd,
    ByStatistic,
    Gate,
    Pointwise,
    Reduction,
    Scale,
    SelfGate,
    Softmax,
)
from whyformer.engine.mixing import MASKED, Bias, Contraction, Product, Sum
from whyformer.engine.names import POINTWISE
from whyformer.engine.schema import method_of

if TYPE_CHECKING:
    from whyformer.engine.recorder import Recorder

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


# -- learned matrices


@handles("linear")
def linear(
    rec: Recorder, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Any:
    if rec.is_activation(weight) or rec.is_activation(bias):
        product = matmul(rec, torch.matmul, input, weight.mT)
        return product if bias is None else add(rec, torch.add, product, bias)
    operation = Linear(lambda x: func(x, weight, bias), weight, bias, rec.from_pixels(input))
    return rec.step(operation, input)


@handles("matmul", "__matmul__", "bmm", "mm", "mv", "dot", "inner_product")
def matmul(rec: Recorder, func: Any, input: Tensor, other: Tensor) -> Any:
    left, right = rec.is_activation(input), rec.is_activation(other)
    if left and right:
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
        weights = u
        out = rec.step(operation, u, v)
        rec.saw_attention(weights, operation, out, 0)
    elif rec.from_softmax(v):
        weights = v.mT
        out = rec.step(operation, u, weights.mT)
        rec.saw_attention(weights, operation, out, 1, lambda layer: layer.mT)
    else:
        out = rec.step(operation, u, v)
    return out


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


def add_any(rec: Recorder, u: Any, v: Any) -> Any:
    if rec.is_activation(u) or rec.is_activation(v):
        return add(rec, torch.add, u, v)
    return u + v


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
        out = rec.step(operation, u, v)
        follow_einsum(equation, (u, v), out)
        return out
    operands = [u, v]
    order = query_and_key(operands[side], *(subscripts if side == 0 else reversed(subscripts)))
    back = [order.index(i) for i in range(len(order))]
    weights = operands[side].permute(order)
    operands[side] = weights.permute(back)
    out = rec.step(operation, *operands)
    follow_einsum(equation, (u, v), out)
    rec.saw_attention(weights, operation, out, side, lambda layer: layer.permute(back))
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
    if rec.is_activation(weight) or not rec.is_activation(input):
        return rec.generic("convolution", func, (input, weight, bias, *args), kwargs)
    operation = Learned(
        lambda x: func(x, weight, bias, *args, **kwargs),
        lambda x, w: func(x, w, None, *args, **kwargs),
        weight,
        bias,
        reads_pixels=rec.from_pixels(input),
    )
    out = rec.step(operation, input)
    rec.seen.convolutions.append((out, len(rec.seen.attention)))
    return out


# -- sums


@handles("add", "__add__", "__radd__")
def add(rec: Recorder, func: Any, input: Any, other: Any, *, alpha: float = 1) -> Any:
    other = scaled(rec, other, alpha)
    if rec.is_activation(input) and rec.is_activation(other):
        if input.dtype != other.dtype:
            wide = torch.promote_types(input.dtype, other.dtype)
            input, other = rec_cast(rec, input, wide), rec_cast(rec, other, wide)
        return embedding_sum(rec, rec.sum(input, other))
    activation, constant = (input, other) if rec.is_activation(input) else (other, input)
    if not isinstance(constant, Tensor):
        return rec.step(Bias(constant), activation)
    constant = constant.detach()
    scores = rec.scores(activation, mask=is_mask(constant))
    for product in scores:
        product.attend(constant, activation.shape)
    if scores:
        return rec.moved(activation, activation + constant)
    shape = torch.broadcast_shapes(activation.shape, constant.shape)
    if shape != activation.shape:
        activation = rec.moved(activation, activation.expand(shape))
    if is_bias(constant):
        return rec.step(Bias(constant), activation)
    result = rec.step(Sum(rec.samples(activation), constant), activation)
    return embedding_sum(rec, result)


def rec_cast(rec: Recorder, value: Tensor, dtype: torch.dtype) -> Tensor:
    return value if value.dtype == dtype else rec.moved(value, value.to(dtype))


@handles("index_add")
def index_add(
    rec: Recorder, func: Any, input: Tensor, dim: int, index: Tensor, source: Tensor,
    *, alpha: float = 1,
) -> Any:  # fmt: skip
    """A sum at some places; the others are as they were."""
    if len(index.unique()) != len(index):
        return rec.generic("index_add", func, (input, dim, index, source), {"alpha": alpha})
    with rec:
        there = input.index_select(dim, index) + alpha * source
        return torch.index_copy(input, dim, index, there)


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
    return rec.reduced(input, result, axes, keepdim)


def is_mask(constant: Tensor) -> bool:
    """Whether a constant shows some scores and hides others: zero, or very negative."""
    return bool(((constant == 0) | (constant < MASKED)).all())


def is_bias(constant: Tensor) -> bool:
    """A vector added to every row, or a number: neither takes a share of the relevance."""
    return all(size == 1 for size in constant.shape[:-1])


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
    """Whether a value tells one number about each row of another: its mean, its deviation."""
    if value.ndim != source.ndim or value.shape == source.shape:
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


# -- activations, softmax, norms, dropout


def pointwise(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    name = func.__name__
    activations = sum(rec.is_activation(value) for value in (*args, *kwargs.values()))
    inplace = kwargs.pop("inplace", False)
    if activations > 1:
        return rec.generic(name, func, args, kwargs)
    result = rec.local(Pointwise, name, func, args, kwargs)
    return rec.assign(args[0], result) if inplace else result


for _name in POINTWISE:
    HANDLERS[_name] = pointwise


@handles("softmax", "_softmax", "_safe_softmax")
def softmax(
    rec: Recorder, func: Any, input: Tensor, dim: int | None = None, *args: Any, **kwargs: Any
) -> Any:
    if dim is None:
        dim = kwargs.pop("dim", 0 if input.ndim in (0, 1, 3) else 1)
    dtype = kwargs.get("dtype") or next((a for a in args if isinstance(a, torch.dtype)), None)
    if dtype is not None:
        input = rec_cast(rec, input, torch.promote_types(dtype, input.dtype))
    call = torch._safe_softmax if func.__name__ == "_safe_softmax" else torch.softmax
    return rec.step(Softmax(lambda x: call(x, dim), dim), input)


class Shift(Autograd):
    """log_softmax: a value minus one number a row, derived from it."""

    kind = "scale"


@handles("log_softmax")
def log_softmax(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return rec.local(Shift, "log_softmax", func, args, kwargs)


for _name, _handler in norms.NORMS.items():
    HANDLERS[_name] = _handler


@handles("dropout", "dropout1d", "dropout2d", "feature_dropout", "alpha_dropout")
def dropout(rec: Recorder, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not (args[1] if len(args) > 1 else kwargs.get("training", kwargs.get("train", True))):
        return input
    inplace = kwargs.pop("inplace", False)
    result = rec.local(Scale, "dropout", func, (input, *args[:2]), kwargs)
    return rec.assign(input, result) if inplace else result


# -- attention


@handles("scaled_dot_product_attention")
def scaled_dot_product_attention(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return attention.scaled_dot_product(rec, *args, **kwargs)[0]


@handles("multi_head_attention_forward")
def multi_head_attention_forward(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return attention.multi_head(rec, *args, **kwargs)
