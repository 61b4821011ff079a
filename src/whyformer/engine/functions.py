"""Which operation each of torch's functions is, by name.

``HANDLERS`` maps a function's name to the code that records it. What is neither here nor in
``names`` is recorded by the generic rule and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.engine import attention
from whyformer.engine.learned import Learned, Linear
from whyformer.engine.local import Elementwise, Terms
from whyformer.engine.mixing import Contraction, Product, Sum
from whyformer.engine.names import IDENTITIES

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


@handles("matmul", "__matmul__", "bmm", "mm")
def matmul(rec: Recorder, func: Any, input: Tensor, other: Tensor) -> Any:
    left, right = rec.is_activation(input), rec.is_activation(other)
    if left and right:
        if rec.from_softmax(input):
            rec.saw_attention(input)
        elif rec.from_softmax(other):
            weights = other.mT
            rec.saw_attention(weights)
            other = weights.mT
        return rec.step(Product(), input, other)
    if left and other.ndim == 2 and input.ndim >= 2:
        weight = other.detach()
        return rec.step(
            Linear(lambda x: func(x, weight), weight.mT, None, rec.from_pixels(input)), input
        )
    if left:
        weight = other.detach()
        return rec.step(Learned(lambda x: func(x, weight), torch.matmul, weight), input)
    weight = input.detach()
    return rec.step(Learned(lambda x: func(weight, x), lambda x, w: w @ x, weight), other)


@handles("__rmatmul__")
def rmatmul(rec: Recorder, func: Any, input: Tensor, other: Tensor) -> Any:
    return matmul(rec, torch.matmul, other, input)


@handles("addmm", "baddbmm")
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
    product = _scaled(rec, matmul(rec, torch.matmul, left, right), alpha)
    return product if beta == 0 else add(rec, torch.add, product, _scaled(rec, input, beta))


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
        subscripts = equation.replace(" ", "").partition("->")[0].split(",")
        if rec.from_softmax(u):
            u = _see_weights(rec, u, *subscripts)
        elif rec.from_softmax(v):
            v = _see_weights(rec, v, *reversed(subscripts))
        return rec.step(Contraction(equation), u, v)
    if left:
        weight = v.detach()
        apply = lambda x, w: torch.einsum(equation, x, w)  # noqa: E731
        return rec.step(Learned(lambda x: apply(x, weight), apply, weight), u)
    weight = u.detach()
    apply = lambda x, w: torch.einsum(equation, w, x)  # noqa: E731
    return rec.step(Learned(lambda x: apply(x, weight), apply, weight), v)


def _see_weights(rec: Recorder, weights: Tensor, own: str, others: str) -> Tensor:
    """Attention weights of an einsum, seen as (..., query, key): the key is what is summed."""
    keys = [i for i, letter in enumerate(own) if letter in others]
    queries = [i for i, letter in enumerate(own) if letter not in others]
    if "." in own or len(own) != weights.ndim or len(queries) != 1:
        rec.saw_attention(weights)
        return weights
    (query,) = queries
    sizes = [i for i in keys if weights.shape[i] == weights.shape[query]]
    key = sizes[-1] if sizes else keys[-1]
    order = [i for i in range(weights.ndim) if i not in (query, key)] + [query, key]
    seen = weights.permute(order)
    rec.saw_attention(seen)
    return seen.permute([order.index(i) for i in range(weights.ndim)])


@handles("conv1d", "conv2d", "conv3d")
def convolution(
    rec: Recorder,
    func: Any,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    if rec.is_activation(weight):
        return rec.generic("convolution", func, (input, weight, bias, *args), kwargs)
    operation = Learned(
        lambda x: func(x, weight, bias, *args, **kwargs),
        lambda x, w: func(x, w, None, *args, **kwargs),
        weight,
        bias,
        reads_pixels=rec.from_pixels(input),
    )
    out = rec.step(operation, input)
    if out.ndim == 4 and not rec.seen.attention:
        rec.seen.grids.append((out.shape[-2], out.shape[-1]))
    return out


# -- sums


@handles("add", "__add__", "__radd__")
def add(rec: Recorder, func: Any, input: Any, other: Any, *, alpha: float = 1) -> Any:
    other = _scaled(rec, other, alpha)
    if rec.is_activation(input) and rec.is_activation(other):
        if not input.is_floating_point() or input.dtype != other.dtype:
            return rec.generic("add", torch.add, (input, other), {})
        shaped = input if input.ndim >= other.ndim else other
        return _embedding(
            rec, rec.step(Sum(rec.batch_axis(shaped), rec.batch), input, other), input, other
        )
    activation, constant = (input, other) if rec.is_activation(input) else (other, input)
    if not isinstance(constant, Tensor):
        return activation + constant
    scores = rec.scores(activation)
    if scores is not None:
        scores.attend(constant.detach(), activation.shape)
    if scores is not None or _is_bias(constant):
        return activation + constant.detach()
    shape = torch.broadcast_shapes(activation.shape, constant.shape)
    constant = constant.detach()
    if shape != activation.shape:
        activation = activation.expand(shape)
    result = rec.step(Sum(rec.batch_axis(activation), rec.batch, constant), activation)
    return _embedding(rec, result, activation)


@handles("masked_fill")
def masked_fill(rec: Recorder, func: Any, input: Tensor, mask: Tensor, value: Any) -> Any:
    scores = rec.scores(input) if rec.is_activation(input) else None
    if scores is not None:
        scores.attend(~mask, input.shape)
    return torch.masked_fill(input, mask, value)


@handles("where")
def where(rec: Recorder, func: Any, condition: Tensor, input: Any, other: Any) -> Any:
    if rec.is_activation(condition):  # called as a method: input.where(condition, other)
        condition, input = input, condition
    for value, shown in ((input, condition), (other, ~condition)):
        scores = rec.scores(value) if rec.is_activation(value) else None
        if scores is not None and not (rec.is_activation(input) and rec.is_activation(other)):
            scores.attend(shown, value.shape)
    return torch.where(condition, input, other)


@handles("sub", "__sub__", "subtract")
def sub(rec: Recorder, func: Any, input: Any, other: Any, *, alpha: float = 1) -> Any:
    return add(rec, torch.add, input, _scaled(rec, other, -alpha))


@handles("__rsub__", "rsub")
def rsub(rec: Recorder, func: Any, input: Any, other: Any, *, alpha: float = 1) -> Any:
    return add(rec, torch.add, other, _scaled(rec, input, -alpha))


@handles("sum", "mean")
def reduction(rec: Recorder, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    dim = args[0] if args else kwargs.get("dim", kwargs.get("axis"))
    keepdim = args[1] if len(args) > 1 else kwargs.get("keepdim", False)
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    axes = tuple(sorted(axis % input.ndim for axis in dims))
    return rec.local(
        Terms, func.__name__, func, (input, *args), kwargs,
        axes=axes, keepdim=keepdim, batch_axis=rec.batch_axis(input), batch=rec.batch,
    )  # fmt: skip


def _is_bias(constant: Tensor) -> bool:
    """A vector added to every row, or a number: neither takes a share of the relevance."""
    return all(size == 1 for size in constant.shape[:-1])


def _embedding(rec: Recorder, result: Tensor, *operands: Tensor) -> Tensor:
    """Word, position and segment embeddings are one input: follow their sum."""
    roots = [rec.seen.embedded is not None and not _below_roots(t) for t in operands]
    if all(roots) and not rec.seen.attention:
        rec.seen.embedded = result
    return result


def _below_roots(tensor: Tensor) -> bool:
    """Whether anything but sums lies between a tensor and the embeddings."""
    node: Any = tensor.grad_fn
    while node is not None and not hasattr(node, "variable"):
        operation = getattr(node, "operation", None)
        if operation is not None and operation.name != "sum" and not operation.transparent:
            return True
        node = node.next_functions[0][0] if node.next_functions else None
    return False


# -- elementwise products


@handles("mul", "__mul__", "__rmul__", "multiply")
def mul(rec: Recorder, func: Any, input: Any, other: Any) -> Any:
    if rec.is_activation(input) and rec.is_activation(other):
        return rec.local(Elementwise, "mul", torch.mul, (input, other), {})
    return rec.identity("scale", torch.mul, (input, other), {}, transparent=True)


@handles("div", "__truediv__", "__div__", "true_divide", "divide")
def div(rec: Recorder, func: Any, input: Any, other: Any, **kwargs: Any) -> Any:
    if rec.is_activation(input) and rec.is_activation(other):
        return rec.local(Elementwise, "div", torch.div, (input, other), kwargs)
    if rec.is_activation(input):
        return rec.identity("scale", torch.div, (input, other), kwargs, transparent=True)
    return rec.identity("reciprocal", torch.div, (input, other), kwargs)


@handles("__rdiv__", "__rtruediv__")
def rdiv(rec: Recorder, func: Any, input: Any, other: Any) -> Any:
    return div(rec, torch.div, other, input)


@handles("neg", "negative", "__neg__")
def neg(rec: Recorder, func: Any, input: Tensor) -> Any:
    return rec.identity("scale", torch.neg, (input,), {}, transparent=True)


def _scaled(rec: Recorder, value: Any, factor: float) -> Any:
    if factor == 1:
        return value
    return mul(rec, torch.mul, value, factor) if rec.is_activation(value) else value * factor


# -- identities: one activation in, the same shape out


def _identity(name: str, transparent: bool = False) -> Handler:
    def handler(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("inplace", False):
            return rec.assign(args[0], rec.identity(name, func, args, kwargs))
        return rec.identity(name, func, args, kwargs, transparent)

    return handler


for _name in IDENTITIES:
    HANDLERS[_name] = _identity(_name)
for _name in ("softmax", "_softmax"):
    HANDLERS[_name] = _identity("softmax")


@handles("dropout", "dropout1d", "dropout2d", "feature_dropout")
def dropout(rec: Recorder, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not (args[1] if len(args) > 1 else kwargs.get("training", True)):
        return input
    return _identity("dropout", transparent=True)(rec, func, input, *args, **kwargs)


# -- attention


@handles("scaled_dot_product_attention")
def scaled_dot_product_attention(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return attention.scaled_dot_product(rec, *args, **kwargs)[0]


@handles("multi_head_attention_forward")
def multi_head_attention_forward(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return attention.multi_head(rec, *args, **kwargs)
