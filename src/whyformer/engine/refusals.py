"""Why a model cannot be explained, in one true sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from whyformer.engine.calls import NO_GRAD, is_ours, place_of
from whyformer.engine.forward_record import ForwardRecord
from whyformer.engine.graph import nodes, operation_of
from whyformer.errors import ModelError, first_line

UNKNOWN = "unknown"


def refuse_opaque(model: nn.Module) -> None:
    """Compiled and scripted modules hide their operations from the recorder."""
    for name, module in model.named_modules():
        where = f"its submodule {name!r}" if name else "the model"
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None):
            raise ModelError(
                f"{where} is compiled by torch.compile, which hides its operations; "
                "explain the module you compiled (compiled._orig_mod) instead"
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise ModelError(
                f"{where} is a TorchScript module, which hides its operations; "
                "explain the eager nn.Module it was made from instead"
            )


def refuse_non_finite(model: nn.Module, answer: Tensor) -> None:
    """NaN is no answer; infinity is, where a model masks some of its answers."""
    if bool(answer.isfinite().all()):
        return
    for name, parameter in (*model.named_parameters(), *model.named_buffers()):
        if parameter.is_floating_point() and bool(
            parameter.isnan().any() | parameter.isinf().any()
        ):
            raise ModelError(f"the model's weight {name!r} holds NaN or infinity")
    if bool(answer.isnan().any()) or not bool(answer.isfinite().any()):
        raise ModelError(
            "the model's logits hold NaN or infinity although its weights and inputs do not"
            + ("" if answer.dtype is torch.float64 else "; try it in float64")
        )


def why_cut(seen: ForwardRecord) -> str:
    place = seen.cuts[-1] if seen.cuts else seen.last_cut
    if place is not None and NO_GRAD in place:
        return (
            f"{place} returned a value without a gradient; have the model's forward run that part "
            "without torch.no_grad()"
        )
    if place is not None:
        return (
            f"{place} returned a value without a gradient; remove it from the forward, "
            "or replace it by an operation that autograd can follow"
        )
    return (
        "some operation of the forward is invisible to autograd (a custom kernel, a scripted part)"
    )


def why_no_backward(values: Sequence[Tensor], error: BaseException) -> str:
    """A function with a backward of its own may refuse to run it; what else fails is told."""
    own = {node.name() for node in nodes(values) if custom(node)}
    if own and (place := innermost(error)) != UNKNOWN:
        names = ", ".join(sorted(name.removesuffix("Backward") for name in own))
        return (
            f"the model hides a part of its forward in {names}, an autograd.Function of its own, "
            f"whose backward failed ({type(error).__name__} at {place}): replace it in the forward "
            "by the ordinary operations that it stands for, which autograd can follow"
        )
    return f"the backward through the recorded model failed: {first_line(error)}"


def custom(node: Any) -> bool:
    """Whether a node is an autograd.Function of the model's own."""
    return isinstance(node, BackwardCFunction) and operation_of(node) is None


def why_no_attention(seen: ForwardRecord) -> str:
    if seen.cuts:
        return f"{seen.cuts[0]} cuts the graph, and what lies below it is not seen"
    if seen.softmaxes:
        shape = seen.softmaxes[0][1]
        return f"a softmax of shape {shape} was seen, but its result is changed before the product"
    return "whyformer explains Transformers, and finds attention by its call of softmax"


def innermost(error: BaseException) -> str:
    """The last line of non-torch code that an exception passed through."""
    outside = [pair for pair in walk_tb(error.__traceback__) if not is_ours(pair[0])]
    return place_of(*outside[-1]) if outside else UNKNOWN
