"""torch's normalisations, each with its statistics: their deviation can be held constant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.engine.handled import handles
from whyformer.engine.local import Normalisation, Scale
from whyformer.engine.mixing import Bias

if TYPE_CHECKING:
    from whyformer.engine.recorder import Recorder

Statistics = Callable[[Tensor], tuple[Tensor | None, Tensor]]


def deviation(axes: tuple[int, ...], epsilon: float, centred: bool = True) -> Statistics:
    """The mean over axes, or none, and one over the deviation from it."""

    def statistics(x: Tensor) -> tuple[Tensor | None, Tensor]:
        mean = x.mean(axes, keepdim=True) if centred else None
        shifted = x if mean is None else x - mean
        return mean, (shifted.square().mean(axes, keepdim=True) + epsilon).rsqrt()

    return statistics


def along(vector: Tensor | None, axis: int, ndim: int) -> Tensor | None:
    """A weight or bias of one axis, shaped to multiply a value."""
    if vector is None:
        return None
    shape = [1] * ndim
    shape[axis] = -1
    return vector.detach().view(shape)


def constant(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.detach()


def recorded(
    rec: Recorder, name: str, func: Any, args: Sequence[Any], statistics: Statistics,
    weight: Tensor | None, bias: Tensor | None, axis: int | None = None,
) -> Any:  # fmt: skip
    """A norm as an operation; one whose weight or bias depends on the input has no rule here.

    ``axis`` is the one that weight and bias belong to; without it they fit the value as they are.
    """
    if any(rec.is_activation(value) for value in (weight, bias)):
        return rec.generic(name, func, args, {})
    if axis is not None:
        weight, bias = along(weight, axis, args[0].ndim), along(bias, axis, args[0].ndim)
    return rec.local(
        Normalisation, name, func, args, {},
        statistics=statistics, weight=constant(weight), bias=constant(bias),
    )  # fmt: skip


@handles("layer_norm")
def layer_norm(
    rec: Recorder, func: Any, input: Tensor, normalized_shape: Sequence[int],
    weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *rest: Any,
) -> Any:  # fmt: skip
    statistics = deviation(tuple(range(-len(normalized_shape), 0)), eps)
    given = (input, normalized_shape, weight, bias, eps)
    return recorded(rec, "layer_norm", func, given, statistics, weight, bias)


@handles("rms_norm")
def rms_norm(
    rec: Recorder, func: Any, input: Tensor, normalized_shape: Sequence[int],
    weight: Tensor | None = None, eps: float | None = None,
) -> Any:  # fmt: skip
    epsilon = torch.finfo(input.dtype).eps if eps is None else eps
    statistics = deviation(tuple(range(-len(normalized_shape), 0)), epsilon, centred=False)
    given = (input, normalized_shape, weight, eps)
    return recorded(rec, "rms_norm", func, given, statistics, weight, None)


@handles("group_norm")
def group_norm(
    rec: Recorder, func: Any, input: Tensor, num_groups: int,
    weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *rest: Any,
) -> Any:  # fmt: skip
    def statistics(x: Tensor) -> tuple[Tensor | None, Tensor]:
        grouped = x.unflatten(1, (num_groups, -1))
        mean, scale = deviation(tuple(range(2, grouped.ndim)), eps)(grouped)
        assert mean is not None
        return mean.expand_as(grouped).flatten(1, 2), scale.expand_as(grouped).flatten(1, 2)

    given = (input, num_groups, weight, bias, eps)
    return recorded(rec, "group_norm", func, given, statistics, weight, bias, axis=1)


@handles("instance_norm")
def instance_norm(
    rec: Recorder, func: Any, input: Tensor,
    running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5, *rest: Any,
) -> Any:  # fmt: skip
    if not inspect.isfunction(func):  # torch.instance_norm: weight and bias come first
        running_mean, running_var, weight, bias = weight, bias, running_mean, running_var
    func = torch.nn.functional.instance_norm
    if any(rec.is_activation(value) for value in (weight, bias)):
        given = (input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
        return rec.generic("instance_norm", func, given, {})
    if not use_input_stats:
        assert running_mean is not None
        assert running_var is not None
        return affine(rec, input, running_mean, running_var, weight, bias, eps)
    call = lambda x: func(x, None, None, weight, bias, True, momentum, eps)  # noqa: E731
    statistics = deviation(tuple(range(2, input.ndim)), eps)
    return recorded(rec, "instance_norm", call, (input,), statistics, weight, bias, axis=1)


@handles("batch_norm")
def batch_norm(
    rec: Recorder, func: Any, input: Tensor, running_mean: Tensor | None,
    running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5, *rest: Any,
) -> Any:  # fmt: skip
    if not inspect.isfunction(func):  # torch.batch_norm: weight and bias come first
        running_mean, running_var, weight, bias = weight, bias, running_mean, running_var
    if any(rec.is_activation(value) for value in (weight, bias)):
        given = (input, running_mean, running_var, weight, bias, training, momentum, eps)
        return rec.generic("batch_norm", torch.nn.functional.batch_norm, given, {})
    if not training:
        assert running_mean is not None
        assert running_var is not None
        return affine(rec, input, running_mean, running_var, weight, bias, eps)
    func = torch.nn.functional.batch_norm
    call = lambda x: func(x, None, None, weight, bias, True, momentum, eps)  # noqa: E731
    statistics = deviation(tuple(i for i in range(input.ndim) if i != 1), eps)
    return recorded(rec, "batch_norm", call, (input,), statistics, weight, bias, axis=1)


def affine(
    rec: Recorder, input: Tensor, mean: Tensor, variance: Tensor,
    weight: Tensor | None, bias: Tensor | None, eps: float,
) -> Tensor:  # fmt: skip
    """Known statistics: a scale by a constant for every channel, and a bias."""
    scale = (variance.detach() + eps).rsqrt()
    if weight is not None:
        scale = scale * weight.detach()
    shift = -mean.detach() * scale
    if bias is not None:
        shift = shift + bias.detach()
    shaped = along(scale, 1, input.ndim)
    result: Tensor = rec.local(Scale, "batch_norm", torch.mul, (input, shaped), {})
    offset = along(shift, 1, input.ndim)
    assert offset is not None
    biased: Tensor = rec.step(Bias(offset), result)
    return biased


@handles("normalize")
def normalize(
    rec: Recorder, func: Any, input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12,
    *rest: Any, out: None = None,
) -> Any:  # fmt: skip
    def statistics(x: Tensor) -> tuple[Tensor | None, Tensor]:
        return None, 1 / x.norm(p, dim, keepdim=True).clamp_min(eps)

    return recorded(rec, "normalize", func, (input, p, dim, eps), statistics, None, None)
