"""Watch a model's own forward and put operations with two backwards into its graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from whyformer.engine.functions import HANDLERS
from whyformer.engine.graph import batch_axis, origin
from whyformer.engine.local import Generic, Identity
from whyformer.engine.mixing import Product
from whyformer.engine.names import INERT, MOVES
from whyformer.engine.operations import Operation, Step, Switch


@dataclass
class Seen:
    """What a forward revealed about the model."""

    attention: list[Tensor] = field(default_factory=list)
    cross_attention: int = 0
    grids: list[tuple[int, int]] = field(default_factory=list)
    embedded: Tensor | None = None
    words: Tensor | None = None
    lookup: int = 0
    softmaxes: list[tuple[Operation, tuple[int, ...]]] = field(default_factory=list)
    fallbacks: dict[str, int] = field(default_factory=dict)
    cuts: list[str] = field(default_factory=list)


class Recorder(TorchFunctionMode):
    """Active on one thread, for one forward; the model itself is never touched."""

    def __init__(
        self, switch: Switch, batch: int, inputs: Iterable[Tensor], roots: Iterable[Tensor]
    ) -> None:
        super().__init__()
        self.switch = switch
        self.batch = batch
        self._inputs = {storage(tensor) for tensor in inputs}
        self.seen = Seen()
        self._lookups = 0
        self._given = False
        self._roots = {id(root): root for root in roots}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = function_name(func)
        tensors = list(tensors_in((*args, *kwargs.values())))
        if not tensors:
            return func(*args, **kwargs)
        if not any(self.is_activation(t) for t in tensors):
            if name == "embedding":
                return self.embed(func, args, kwargs)
            with torch.no_grad():
                return func(*args, **kwargs)
        if name in INERT:
            return func(*args, **kwargs)
        if name in CASTS:
            return widen_cast(func(*args, **kwargs), args[0])
        if any(t.dtype in HALF for t in tensors):
            args, kwargs = widen(name, args, kwargs, self.is_activation)
        if not torch.is_grad_enabled():
            return self._cut(f"{name} under torch.no_grad()", func(*args, **kwargs))
        if name.endswith("_") and not name.endswith("__") and name[:-1] in HANDLERS:
            return self._in_place(name[:-1], args, kwargs)
        if name in HANDLERS:
            return HANDLERS[name](self, func, *args, **kwargs)
        result = func(*args, **kwargs) if name in MOVES else self.generic(name, func, args, kwargs)
        return self._cut(name, result)

    # -- what handlers use

    def is_activation(self, value: Any) -> bool:
        """Whether a value depends on the input; parameters and masks do not."""
        return (
            isinstance(value, Tensor)
            and value.requires_grad
            and (value.grad_fn is not None or id(value) in self._roots)
        )

    def step(self, operation: Operation, *operands: Tensor) -> Any:
        operation.switch = self.switch
        result = Step.apply(operation, *operands)
        if operation.name == "softmax" and result.ndim > 2:
            self.seen.softmaxes.append((operation, tuple(result.shape)))
        return result

    def local(
        self,
        kind: Callable[..., Operation],
        name: str,
        func: Any,
        args: Any,
        kwargs: Any,
        **more: Any,
    ) -> Any:
        """Run a call as an operation of the given kind on its activations."""
        if (
            args
            and self.is_activation(args[0])
            and not any(self.is_activation(t) for t in tensors_in((*args[1:], *kwargs.values())))
        ):
            rest, named = constant(args[1:]), constant(kwargs)
            return self.step(kind(name, lambda x: func(x, *rest, **named), **more), args[0])
        leaves, spec = tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if self.is_activation(leaf)]
        constants = constant(leaves)

        def call(*operands: Tensor) -> Any:
            values = list(constants)
            for place, operand in zip(places, operands, strict=True):
                values[place] = operand
            positional, named = tree_unflatten(values, spec)
            return func(*positional, **named)

        return self.step(kind(name, call, **more), *(leaves[i] for i in places))

    def identity(
        self, name: str, func: Any, args: Any, kwargs: Any, transparent: bool = False
    ) -> Any:
        if sum(self.is_activation(t) for t in tensors_in((*args, *kwargs.values()))) > 1:
            return self.generic(name, func, args, kwargs)
        return self.local(Identity, name, func, args, kwargs, transparent=transparent)

    def generic(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        self.seen.fallbacks[name] = self.seen.fallbacks.get(name, 0) + 1
        return self.local(Generic, name, func, args, kwargs)

    def embed(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        """Text enters the graph where its embeddings do; those of positions are constants."""
        with torch.no_grad():
            out: Tensor = func(*args, **kwargs)
        self._lookups += 1
        given = storage(args[0] if args else kwargs["input"]) in self._inputs
        if self.seen.embedded is not None and not given:
            return out
        root = (out.float() if out.dtype in HALF else out.detach()).requires_grad_()
        self._roots[id(root)] = root
        if self.seen.embedded is None:
            self.seen.embedded = root
        if self.seen.words is None or (given and not self._given):
            self.seen.words, self.seen.lookup = root.detach(), self._lookups - 1
            self._given = given
        return root

    def batch_axis(self, tensor: Tensor) -> int | None:
        return batch_axis(tensor, self.batch)

    def saw_attention(self, weights: Tensor) -> None:
        """Note an attention map; what is left among the softmaxes was not recognised."""
        source = origin(weights)
        self.seen.softmaxes = [pair for pair in self.seen.softmaxes if pair[0] is not source]
        if weights.shape[-1] == weights.shape[-2]:
            self.seen.attention.append(weights)
        else:
            self.seen.cross_attention += 1

    def from_softmax(self, tensor: Tensor) -> bool:
        operation = origin(tensor)
        return operation is not None and operation.name == "softmax"

    def scores(self, tensor: Tensor) -> Product | None:
        """The product of two activations that a tensor is, perhaps rescaled: Q K^T."""
        operation = origin(tensor)
        return operation if isinstance(operation, Product) else None

    def from_pixels(self, tensor: Tensor) -> bool:
        """Whether a tensor holds the image itself, moved or rescaled."""
        node = tensor.grad_fn
        while node is not None and not hasattr(node, "variable"):
            operation = getattr(node, "operation", None)
            if operation is not None and not operation.transparent:
                return False
            node = node.next_functions[0][0] if node.next_functions else None
        root = tensor if node is None else node.variable
        return id(root) in self._roots and root.ndim == 4

    # -- the rest

    def _in_place(self, name: str, args: Any, kwargs: Any) -> Tensor:
        """x.add_(y) as x = x + y, so that what relevance needs of x is not overwritten."""
        target: Tensor = args[0]
        result = HANDLERS[name](self, getattr(Tensor, name), target, *args[1:], **kwargs)
        return self.assign(target, result)

    def assign(self, target: Tensor, result: Tensor) -> Tensor:
        """Make the caller's tensor the result; a view of something larger is written through."""
        if hasattr(target.grad_fn, "operation") or not target._is_view():
            try:
                torch.utils.swap_tensors(target, result)
            except RuntimeError:  # held by a saved tensor or a weak reference
                return target.copy_(result)
            return target
        return target.copy_(result)

    def _cut(self, name: str, result: Any) -> Any:
        for leaf in tensors_in((result,)):
            if leaf.is_floating_point() and not leaf.requires_grad:
                self.seen.cuts.append(f"{name} ({caller()})")
                break
        return result


# Half precision is for storage. Relevance divides by small sums, so a half-precision model is
# recorded in single precision, with its own weights.

HALF = (torch.bfloat16, torch.float16)
CASTS = frozenset({"to", "type", "type_as", "bfloat16", "half"})


def widen_cast(result: Tensor, source: Tensor) -> Tensor:
    """A cast to half precision is not taken; one to another device is."""
    return source.to(result.device) if result.dtype in HALF else result


def widen(
    name: str, args: Any, kwargs: Any, is_activation: Callable[[Tensor], bool]
) -> tuple[Any, Any]:
    """Half-precision operands in single precision, but for one that is written to."""

    def wide(value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dtype not in HALF:
            return value
        return value.float() if is_activation(value) else value.detach().float()

    kept = 1 if name == "__setitem__" or name.endswith("_") else 0
    return (*args[:kept], *tree_map(wide, tuple(args[kept:]))), tree_map(wide, kwargs)


def storage(tensor: Tensor) -> int:
    """Where a tensor's memory begins: the same for all views of one."""
    return tensor.untyped_storage().data_ptr()


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among a call's arguments, in lists and tuples too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


def constant(values: Any) -> Any:
    """Arguments whose tensors are detached, parameters above all."""
    if isinstance(values, Tensor):
        return values.detach()
    if isinstance(values, dict):
        return {key: constant(value) for key, value in values.items()}
    return type(values)(map(constant, values)) if type(values) in (list, tuple) else values


def function_name(func: Callable[..., Any]) -> str:
    name: str = getattr(func, "__name__", "")
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", name))
    return name.partition(".")[0] or repr(func)


def caller() -> str:
    """The line of the model's code that made a call."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("torch", "whyformer.engine")):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
