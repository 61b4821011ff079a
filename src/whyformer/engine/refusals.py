"""Why a model cannot be explained, in one true sentence each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from whyformer.engine.forward_record import ForwardRecord
from whyformer.errors import ModelError


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
            "the model's logits hold NaN or infinity although its weights and inputs do not; "
            "try it in float32"
        )


def why_cut(seen: ForwardRecord) -> str:
    place = seen.cuts[-1] if seen.cuts else seen.last_cut
    if place is not None:
        return (
            f"{place} returned a value without a gradient; remove it from the forward, "
            "or replace it by an operation that autograd can follow"
        )
    return (
        "some operation of the forward is invisible to autograd (a custom kernel, a scripted part)"
    )


def why_no_attention(seen: ForwardRecord) -> str:
    if seen.cuts:
        return f"{seen.cuts[0]} cuts the graph, and what lies below it is not seen"
    if seen.softmaxes:
        shape = seen.softmaxes[0][1]
        return f"a softmax of shape {shape} was seen, but its result is changed before the product"
    return "whyformer explains Transformers"


def innermost(error: BaseException) -> str:
    """The last line of non-torch code that an exception passed through."""
    place = "unknown"
    traceback = error.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        if not frame.f_globals.get("__name__", "").startswith(("torch", "whyformer.engine")):
            place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
