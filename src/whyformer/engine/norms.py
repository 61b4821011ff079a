"""torch's normalisations, each with its statistics: their deviation can be held constant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

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


def layer_norm(
    rec: Recorder, func: Any, input: Tensor, normalized_shape: Sequence[int],
    weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *rest: Any,
) -> Any:  # fmt: skip
    if any(rec.is_activation(value) for value in (weight, bias)):
        return rec.generic("layer_norm", func, (input, normalized_shape, weight, bias, eps), {})
    axes = tuple(range(-len(normalized_shape), 0))
    return rec.local(
        Normalisation, "layer_norm", func, (input, normalized_shape, weight, bias, eps), {},
        statistics=deviation(axes, eps), weight=constant(weight), bias=constant(bias),
    )  # fmt: skip


def rms_norm(
    rec: Recorder, func: Any, input: Tensor, normalized_shape: Sequence[int],
    weight: Tensor | None = None, eps: float | None = None,
) -> Any:  # fmt: skip
    if rec.is_activation(weight):
        return rec.generic("rms_norm", func, (input, normalized_shape, weight, eps), {})
    axes = tuple(range(-len(normalized_shape), 0))
    epsilon = torch.finfo(input.dtype).eps if eps is None else eps
    return rec.local(
        Normalisation, "rms_norm", func, (input, normalized_shape, weight, eps), {},
        statistics=deviation(axes, epsilon, centred=False), weight=constant(weight), bias=None,
    )  # fmt: skip


def group_norm(
    rec: Recorder, func: Any, input: Tensor, num_groups: int,
    weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, *rest: Any,
) -> Any:  # fmt: skip
    if any(rec.is_activation(value) for value in (weight, bias)):
        return rec.generic("group_norm", func, (input, num_groups, weight, bias, eps), {})

    def statistics(x: Tensor) -> tuple[Tensor | None, Tensor]:
        grouped = x.unflatten(1, (num_groups, -1))
        mean, scale = deviation(tuple(range(2, grouped.ndim)), eps)(grouped)
        assert mean is not None
        return (
            mean.expand_as(grouped).flatten(1, 2),
            scale.expand_as(grouped).flatten(1, 2),
        )

    return rec.local(
        Normalisation, "group_norm", func, (input, num_groups, weight, bias, eps), {},
        statistics=statistics,
        weight=along(weight, 1, input.ndim), bias=along(bias, 1, input.ndim),
    )  # fmt: skip


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
    return rec.local(
        Normalisation, "instance_norm",
        lambda x: func(x, None, None, weight, bias, True, momentum, eps), (input,), {},
        statistics=deviation(tuple(range(2, input.ndim)), eps),
        weight=along(weight, 1, input.ndim), bias=along(bias, 1, input.ndim),
    )  # fmt: skip


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
    axes = tuple(i for i in range(input.ndim) if i != 1)
    return rec.local(
        Normalisation, "batch_norm",
        lambda x: torch.nn.functional.batch_norm(x, None, None, weight, bias, True, momentum, eps),
        (input,), {}, statistics=deviation(axes, eps),
        weight=along(weight, 1, input.ndim), bias=along(bias, 1, input.ndim),
    )  # fmt: skip


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


def normalize(
    rec: Recorder, func: Any, input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12,
    *rest: Any, out: None = None,
) -> Any:  # fmt: skip
    def statistics(x: Tensor) -> tuple[Tensor | None, Tensor]:
        return None, 1 / x.norm(p, dim, keepdim=True).clamp_min(eps)

    return rec.local(
        Normalisation, "normalize", func, (input, p, dim, eps), {},
        statistics=statistics, weight=None, bias=None,
    )  # fmt: skip


NORMS: dict[str, Callable[..., Any]] = {
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "batch_norm": batch_norm,
    "normalize": normalize,
}
