"""A recorded forward, and the backwards that can be asked of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.engine.calls import Inputs, as_call, as_logits, as_ordinary, full_precision
from whyformer.engine.forward import Forward
from whyformer.engine.graph import kind, nodes
from whyformer.engine.names import MOVING_NODES
from whyformer.engine.operations import Absolute, Scratch, Switch
from whyformer.engine.recorder import Recorder, Seen
from whyformer.engine.rules import Rules
from whyformer.errors import InputError, ModelError, WhyformerError, first_line

#: of several inputs, the one that says how many samples there are
MAIN_INPUTS = ("input_ids", "pixel_values", "inputs_embeds")


class Trace:
    """One forward's logits and attention maps, with the graph that connects them.

    Attention maps are (batch, heads, tokens, tokens), input side first.
    """

    def __init__(
        self,
        switch: Switch,
        seen: Seen,
        logits: Tensor,
        pixels: Tensor | None,
        forward: Forward | None,
    ) -> None:
        self.switch = switch
        self.seen = seen
        self.logits = logits
        self.pixels = pixels
        self._forward = forward
        self.batch = logits.shape[0]
        self.attention = [self._shaped(a.detach()) for a in seen.attention]
        self._lock = threading.Lock()
        operations, natives = set(), set()
        for node in nodes(logits):
            operation = getattr(node, "operation", None)
            operations.add(operation) if operation else natives.add(kind(node))
        self.foreign = sorted(natives - MOVING_NODES)
        self.unrecognised = [shape for op, shape in seen.softmaxes if op in operations]

    @property
    def tokens(self) -> int:
        return self.attention[-1].shape[-1]

    @property
    def forward(self) -> Forward:
        """The logits as a function of the input, for methods that vary the input itself."""
        if self._forward is None:
            raise ModelError("the model reads neither an image, nor features, nor token ids")
        return self._forward

    def gradients(self, seed: Tensor, last_only: bool = False) -> list[Tensor]:
        """dy/dA for every attention map, y the combination of logits that ``seed`` weighs."""
        of = self.seen.attention[-1:] if last_only else self.seen.attention
        return [self._shaped(g) for g in self._backward(None, seed, of)]

    def relevances(
        self, rules: Rules, seed: Tensor, last_only: bool = False, keep: bool = False
    ) -> list[Tensor]:
        """The relevance of every attention map, ``seed`` being that of the logits."""
        of = self.seen.attention[-1:] if last_only else self.seen.attention
        return [self._shaped(r) for r in self._backward(rules, seed, of, keep)]

    def input_relevance(self, rules: Rules, seed: Tensor, keep: bool = False) -> Tensor:
        """The relevance of the pixels, or of the sum of a text's embeddings."""
        root = self.pixels if self.pixels is not None else self.seen.embedded
        if root is None:
            raise ModelError("the model reads neither an image nor embeddings of token ids")
        return self._backward(rules, seed, [root], keep)[0]

    def _backward(
        self, rules: Rules | None, seed: Tensor, of: Sequence[Tensor], keep: bool = False
    ) -> list[Tensor]:
        with self._lock:
            self.switch.rules, self.switch.keep = rules, keep
            try:
                with torch.inference_mode(False), full_precision(self.logits):
                    found = torch.autograd.grad(
                        self.logits, of, as_ordinary(seed), retain_graph=True, allow_unused=True
                    )
            except WhyformerError:
                raise
            except RuntimeError as error:
                raise ModelError(
                    f"the backward through the recorded model failed: {first_line(error)}"
                ) from None
            finally:
                self.switch.rules, self.switch.keep = None, False
        if any(r is None for r in found):
            lost = [i for i, r in enumerate(found) if r is None]
            raise ModelError(
                f"the logits do not depend on {len(lost)} of the model's {len(of)} attention maps "
                f"(block {lost[-1]}): {why_cut(self.seen)}"
            )
        return [r.detach() for r in found]

    def _shaped(self, weights: Tensor) -> Tensor:
        """Attention as (batch, heads, tokens, tokens), whatever the model's own layout."""
        tokens = weights.shape[-2:]
        if weights.ndim == 4 and weights.shape[0] == self.batch:
            return weights
        lead = weights.shape[:-2].numel()
        if weights.ndim > 3 or lead % self.batch:
            raise ModelError(
                f"an attention map of shape {tuple(weights.shape)} cannot be divided among "
                f"{self.batch} samples; windowed and hierarchical Transformers are not supported"
            )
        return weights.reshape(self.batch, lead // self.batch, *tokens)


def record(
    model: nn.Module, inputs: Inputs, absolute: Absolute, scratch: Scratch | None = None
) -> Trace:
    """Run the model's own forward once and keep its graph."""
    refuse_opaque(model)
    args, kwargs = as_call(inputs)
    tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)]
    if not tensors:
        raise InputError("the inputs hold no tensor")
    check_inputs(tensors)
    floating = [t.requires_grad_() for t in roots(args, kwargs)]
    switch = Switch(absolute, scratch or Scratch())
    batch = next((kwargs[key] for key in MAIN_INPUTS if key in kwargs), tensors[0]).shape[0]
    recorder = Recorder(switch, batch, tensors, floating)
    try:
        with torch.inference_mode(False), torch.enable_grad(), full_precision(tensors[0]), recorder:
            output = model(*args, **kwargs)
    except WhyformerError:
        raise
    except Exception as error:
        given = ", ".join(
            f"{tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}" for t in tensors
        )
        raise InputError(
            f"the model's own forward failed on inputs of shape {given}: "
            f"{type(error).__name__}: {first_line(error)} (at {innermost(error)})"
        ) from None
    logits = as_logits(output, batch)
    seen = recorder.seen
    if not seen.attention:
        raise ModelError(
            "no self-attention was seen in the model's forward: no softmax whose result "
            f"multiplies other activations; {why_no_attention(seen)}"
        )
    if not logits.requires_grad:
        raise ModelError(f"the logits are cut off from the model's graph: {why_cut(seen)}")
    if not bool(logits.isfinite().all()):
        raise non_finite(model)
    pixels = next((t for t in floating if t.ndim == 4), None)
    return Trace(switch, seen, logits, pixels, forward_again(model, inputs, batch, seen))


def forward_again(model: nn.Module, inputs: Inputs, batch: int, seen: Seen) -> Forward | None:
    """The forward on inputs of its own: the recorded ones may have been written into."""
    args, kwargs = as_call(inputs)
    floating = roots(args, kwargs)
    first = [t for t in floating if t.ndim == 4] + floating
    if first:
        return Forward(model, args, kwargs, first[0], batch, None)
    if seen.words is not None:
        return Forward(model, args, kwargs, seen.words, batch, seen.lookup)
    return None


def roots(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Where the input enters: images, embeddings, features; not masks, nor beside token ids."""
    named = [(str(place), value) for place, value in enumerate(args)] + list(kwargs.items())
    tensors = [(key, value) for key, value in named if isinstance(value, Tensor)]
    if kwargs.get("input_ids") is not None or not tensors[0][1].is_floating_point():
        return []
    return [
        value
        for key, value in tensors
        if value.is_floating_point() and value.ndim >= 2 and not ("mask" in key or "bias" in key)
    ]


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


def check_inputs(tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.ndim == 0 or tensor.numel() == 0:
            raise InputError(
                f"an input of shape {tuple(tensor.shape)} is empty; give at least one sample "
                "with at least one token"
            )
        if tensor.ndim == 4 and not tensor.is_floating_point() and tensor.dtype is not torch.bool:
            raise InputError(
                f"an image of type {str(tensor.dtype).removeprefix('torch.')}; give it in floating "
                "point, scaled and normalised as the model was trained"
            )
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"the input of shape {tuple(tensor.shape)} holds NaN or infinity")


def non_finite(model: nn.Module) -> WhyformerError:
    for name, parameter in (*model.named_parameters(), *model.named_buffers()):
        if parameter.is_floating_point() and not bool(parameter.isfinite().all()):
            return ModelError(f"the model's weight {name!r} holds NaN or infinity")
    return ModelError(
        "the model's logits hold NaN or infinity although its weights and inputs do not; "
        "try it in float32"
    )


def why_cut(seen: Seen) -> str:
    if seen.cuts:
        return (
            f"{seen.cuts[-1]} returned a value without a gradient; remove it from the forward, "
            "or replace it by an operation that autograd can follow"
        )
    return (
        "some operation of the forward is invisible to autograd (a custom kernel, a scripted part)"
    )


def why_no_attention(seen: Seen) -> str:
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
