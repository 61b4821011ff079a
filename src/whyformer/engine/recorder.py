"""Watch a model's own forward and put operations that know their ways back into its graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from whyformer.engine.calls import (
    NO_GRAD,
    altered,
    caller,
    function_name,
    note_meeting,
    plainly,
    refuse_checkpoint,
    transformed,
)
from whyformer.engine.following import (
    follow,
    follow_move,
    follow_operands,
    samples_of,
    tensors_in,
)
from whyformer.engine.forward_record import Attention, Block, Branch, ForwardRecord, Made, Mix
from whyformer.engine.graph import compare, origin, scores_below
from whyformer.engine.handlers import HANDLERS
from whyformer.engine.in_place import in_place
from whyformer.engine.local import Autograd, Generic, Normalisation, Softmax
from whyformer.engine.matrices import Product
from whyformer.engine.mixing import Binary, Sum
from whyformer.engine.names import (
    FIXED,
    IN_PLACE,
    INERT,
    LIKE,
    MOVES,
    NUMBERS,
    RANDOM,
    STATISTICS,
)
from whyformer.engine.operations import Operation, Pass, Step
from whyformer.engine.precision import CASTS, mixed, widen, widen_cast
from whyformer.engine.roots import Roots
from whyformer.engine.samples import Samples
from whyformer.engine.schema import positional


class Recorder(TorchFunctionMode):
    """Active on one thread, for one forward; the model itself is never touched.

    ``maps`` false: fused attention stays fused, and no map is stored. ``replaced`` are values for
    some of the roots, by their number; ``changed`` are functions of the results of some steps, by
    the number of the operation.
    """

    def __init__(
        self,
        current: Pass,
        batch: int,
        maps: bool = True,
        replaced: Mapping[int, Tensor] | None = None,
        changed: Mapping[int, Callable[[Tensor], Tensor]] | None = None,
    ) -> None:
        super().__init__()
        self.current = current
        self.batch = batch
        self.maps = maps
        self.seen = ForwardRecord()
        self.roots = Roots(self.seen, batch, replaced or {})
        self.changed = changed or {}

    # -- every call

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = list(tensors_in((*args, *kwargs.values())))
        if not tensors or transformed():
            return func(*args, **kwargs)
        name, device = function_name(func), tensors[0].device.type
        if altered(device):
            with plainly(device):
                return self._call(name, func, args, kwargs, tensors)
        return self._call(name, func, args, kwargs, tensors)

    def _call(self, name: str, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        if not any(self.is_activation(t) for t in tensors):
            return self.roots.constant(name, func, args, kwargs, tensors)
        if name in NUMBERS and tensors[0].is_floating_point():
            self.seen.cuts.append(f"{name} ({caller()})")
            return func(tensors[0].detach())
        if name in INERT or (name in LIKE and not self.is_activation(tensors[0])):
            return func(*args, **kwargs)
        return self.dispatch(name, func, args, kwargs)

    def dispatch(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call on activations, by its function's name."""
        if name in CASTS:
            return follow(args[0], widen_cast(func(*args, **kwargs), args[0]))
        tensors = list(tensors_in((*args, *kwargs.values())))
        if mixed(tensors):
            args, kwargs = widen(name, args, kwargs, tensors, self.is_activation)
        if not torch.is_grad_enabled():
            refuse_checkpoint()
            return self.cut(f"{name} {NO_GRAD}", func(*args, **kwargs))
        self.seen.cuts += [t._cut for t in tensors if hasattr(t, "_cut") and not t.requires_grad]
        if name in IN_PLACE or (name.endswith("_") and not name.endswith("__")):
            return in_place(self, name, func, args, kwargs)
        if name in HANDLERS:
            args, kwargs = positional(func, name, args, kwargs)
            return HANDLERS[name](self, func, *args, **kwargs)
        if name in MOVES:
            return self.cut(name, self.move(name, func, args, kwargs))
        return self.cut(name, self.generic(name, func, args, kwargs))

    # -- what handlers use

    def is_activation(self, value: Any) -> bool:
        """Whether a value depends on the input; parameters and masks do not."""
        return (
            isinstance(value, Tensor)
            and value.requires_grad
            and (value.grad_fn is not None or self.roots.holds(value))
        )

    def step(self, operation: Operation, *operands: Tensor) -> Any:
        operation.current = self.current
        operation.lean = not self.maps and operation.name not in RANDOM
        result = Step.apply(operation, *operands)
        if operation.number in self.changed:
            result = self.changed[operation.number](result)
        if isinstance(operation, Softmax) and result.ndim > 2:
            self.seen.softmaxes.append((operation, tuple(result.shape)))
        if isinstance(operation, Normalisation) and self.maps:
            self.seen.made.append(Made(operation, result))
        for out in tensors_in((result,)):
            if out.is_floating_point():
                follow_operands(operands, out)
        note_meeting(operation, operands)
        return result

    def local(
        self,
        kind: Callable[..., Autograd],
        name: str,
        func: Any,
        args: Any,
        kwargs: Any,
        **more: Any,
    ) -> Any:
        """Run a call as an operation of the given kind on its activations."""
        leaves, spec = tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if self.is_activation(leaf)]
        constants = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        for place in places:
            constants[place] = None
        made: type | None = None

        def call(*operands: Tensor) -> Any:
            nonlocal made
            values = list(constants)
            for place, operand in zip(places, operands, strict=True):
                values[place] = operand
            positional, named = tree_unflatten(values, spec)
            result = func(*positional, **named)
            made = None if isinstance(result, Tensor) else type(result)
            return result

        result = self.step(kind(name, call, **more), *(leaves[i] for i in places))
        return result if made in (None, tuple) else made(result)

    def generic(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        if name not in STATISTICS and name not in FIXED:
            self.seen.fallbacks[name] = self.seen.fallbacks.get(name, 0) + 1
        return self.local(Generic, name, func, args, kwargs)

    def samples(self, *values: Tensor) -> Samples:
        """Whose each index is; where that was lost, each sample is to be asked by itself."""
        found = samples_of(values)
        if found is None:
            self.seen.lost = True
            return Samples(None, torch.arange(self.batch), self.batch)
        return found

    def moved(self, source: Tensor, result: Tensor) -> Tensor:
        """A result that autograd computes itself has its source's samples."""
        follow_operands((source,), result)
        return result

    def saw_attention(
        self,
        weights: Tensor,
        product: Product,
        out: Tensor,
        side: int,
        native: Callable[[Tensor], Tensor] = lambda layer: layer,
    ) -> None:
        """Note an attention map; what is left among the softmaxes was not recognised."""
        source = origin(weights)
        if isinstance(source, Softmax):
            source.attends = True
        self.seen.softmaxes = [pair for pair in self.seen.softmaxes if pair[0] is not source]
        product.weights = side
        mix = Mix(product, out, native)
        for known in self.seen.attention:
            if known.softmax is source and known.weights.shape == weights.shape:
                known.mixes.append(mix)
                return
        self.seen.attention.append(Attention(weights, source, [mix]))

    def from_softmax(self, tensor: Tensor) -> bool:
        operation = origin(tensor)
        return operation is not None and operation.name == "softmax"

    def scores(self, tensor: Tensor, mask: bool = False) -> list[Binary]:
        """The product of two activations that a tensor is, perhaps rescaled: Q K^T.

        Under a mask also a sum of several, perhaps with an activation around it.
        """
        operation = origin(tensor)
        if isinstance(operation, Product):
            return [operation]
        return scores_below(tensor) if mask and tensor.ndim > 2 else []

    def from_pixels(self, tensor: Tensor) -> bool:
        """Whether a tensor holds the image itself, moved or rescaled."""
        node = tensor.grad_fn
        while node is not None and not hasattr(node, "variable"):
            operation = getattr(node, "operation", None)
            if operation is not None and not operation.transparent:
                return False
            node = node.next_functions[0][0] if node.next_functions else None
        return node is not None and self.roots.holds(node.variable) and node.variable.ndim == 4

    def sum(self, u: Tensor, v: Tensor) -> Tensor:
        """u + v of two activations, and what the graph says about them."""
        one, other = compare(u, v)
        skip = 0 if one.only_moves else 1 if other.only_moves else None
        operation = Sum(
            self.samples(u, v),
            one_source=one.only_moves and other.only_moves,
            skip=skip,
            mixes=(one.attention, other.attention),
        )
        result: Tensor = self.step(operation, u, v)
        if skip is not None and self.maps:
            self.seen.made.append(Made(operation, result, (u, v)[skip]))
        if skip is not None and operation.mixes[1 - skip]:
            self.seen.blocks.append(Block((u, v)[skip], result, operation))
        elif skip is not None and (one, other)[1 - skip].may_mix:
            self.seen.branches.append(Branch((u, v)[skip], (u, v)[1 - skip]))
        return result

    # -- the rest

    def move(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        follow_move(name, func, args, kwargs, result)
        return result

    def cut(self, name: str, result: Any) -> Any:
        """Mark values that autograd lost: they matter where something else reads them."""
        for leaf in tensors_in((result,)):
            if leaf.is_floating_point() and not leaf.requires_grad:
                leaf._cut = f"{name} ({caller()})"  # type: ignore[attr-defined]
                self.seen.last_cut = leaf._cut  # type: ignore[attr-defined]
        return result
