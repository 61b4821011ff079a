"""Which operation each of torch's functions is, by name.

``HANDLERS`` maps a function's name to the code that records it, called with its arguments in the
places that the operator's schema gives them. What is neither here nor in ``names`` is recorded
by the generic rule and reported. Sums and products have files of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.engine import attention, norms, products, sums
from whyformer.engine.following import follow
from whyformer.engine.handled import HANDLERS, handles
from whyformer.engine.in_place import assign
from whyformer.engine.local import Autograd, Pointwise, Scale, Softmax
from whyformer.engine.names import POINTWISE
from whyformer.engine.sums import rec_cast

if TYPE_CHECKING:
    from whyformer.engine.recorder import Recorder

__all__ = ["HANDLERS", "norms", "products", "sums"]


def pointwise(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    name = func.__name__
    activations = sum(rec.is_activation(value) for value in (*args, *kwargs.values()))
    inplace = kwargs.pop("inplace", False)
    if activations > 1 or (name == "prelu" and not rec.is_activation(args[0])):
        return rec.generic(name, func, args, kwargs)
    target: Any = args[0] if args else None
    if inplace and target._is_view() and not hasattr(target.grad_fn, "operation"):
        args = (follow(target, target.clone()), *args[1:])
    varies = sum(isinstance(value, Tensor) for value in (*args, *kwargs.values())) > 1
    result = rec.local(Pointwise, name, func, args, kwargs, varies=varies)
    return assign(rec, target, result) if inplace else result


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


@handles("dropout", "dropout1d", "dropout2d", "feature_dropout", "alpha_dropout")
def dropout(rec: Recorder, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not (args[1] if len(args) > 1 else kwargs.get("training", kwargs.get("train", True))):
        return input
    inplace = kwargs.pop("inplace", False)
    result = rec.local(Scale, "dropout", func, (input, *args[:2]), kwargs)
    return assign(rec, input, result) if inplace else result


@handles("broadcast_tensors")
def broadcast_tensors(rec: Recorder, func: Any, *tensors: Any) -> Any:
    """Each by itself: of the results, constants are constants and cut nothing."""
    given = tensors if isinstance(tensors[0], Tensor) else tensors[0]
    shape = torch.broadcast_shapes(*(tensor.shape for tensor in given))
    with rec:
        return tuple(tensor.expand(shape) for tensor in given)


# -- attention


@handles("scaled_dot_product_attention")
def scaled_dot_product_attention(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return attention.scaled_dot_product(rec, *args, **kwargs)[0]


@handles("multi_head_attention_forward")
def multi_head_attention_forward(rec: Recorder, func: Any, *args: Any, **kwargs: Any) -> Any:
    return attention.multi_head(rec, *args, **kwargs)
