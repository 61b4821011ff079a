"""Operations that can be run backwards by any table of rules.

Each object stands for one call that the model made. ``Step`` puts it into autograd's graph. On
the way back, what is carried (a gradient, relevance, mass) stands where autograd keeps the
gradient of a value: we call that place the value's slot. The table that is in force turns the
slots of an operation's outputs into those of its operands. Everything else a model does
(reshapes, selections, concatenations) moves values, and moves the slots back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.engine.holes import Holes
from whyformer.engine.multiplying import NARROW
from whyformer.errors import ModelError

if TYPE_CHECKING:
    from whyformer.engine.rules.tables import Rule, Table

Slots = tuple[Tensor | None, ...]

#: how many narrowed weights several backwards share: those of a block
NEAR = 8


class Pass:
    """Which backward is running, shared by all operations of one recording."""

    def __init__(self) -> None:
        self.table: Table | None = None
        #: whether what several targets share is kept
        self.keep = False
        #: whether several targets pass an operation side by side
        self.abreast = False
        #: whether products are of bfloat16 numbers
        self.fast = False
        #: told what an operation's constants give: the operation, and terms of its output's shape
        self.constants: Callable[[Operation, Tensor], None] | None = None
        #: how many operations were recorded
        self.recorded = 0
        #: gives back what was freed
        self.holes = Holes()
        self._rooms: dict[str, Tensor] = {}
        self._near: dict[Any, Tensor] | None = None

    @property
    def rounding(self) -> float:
        """What a product may be off by, relative to the sizes of its terms; in full, nothing."""
        return torch.finfo(NARROW).eps if self.fast else 0.0

    def narrowed(self, weight: Tensor) -> Tensor:
        """W as products take it: in bfloat16 where they are fast.

        While several backwards pass the same operations, some that were narrowed are near; else
        the next one is written over it.
        """
        if not self.fast or weight.dtype is NARROW:
            return weight
        near, which = self._near, (weight.data_ptr(), weight.shape, weight.stride())
        if near is not None and which in near:
            return near[which]
        if near is None or not which[0] or len(near) == NEAR:
            return self._room("narrowed", weight, NARROW).copy_(weight)
        near[which] = self._room(f"near {len(near)}", weight, NARROW).copy_(weight)
        return near[which]

    @contextmanager
    def weights_near(self) -> Iterator[None]:
        """Several backwards pass the same operations, one after the other."""
        self._near = {}
        try:
            yield
        finally:
            self._near = None

    def absolute(self, weight: Tensor) -> Tensor:
        """|W|, in memory that the next weight's will be written to."""
        return torch.abs(weight, out=self._room("absolute", weight, weight.dtype))

    def _room(self, use: str, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """Memory of a weight's shape, for one use.

        Fresh memory of that size is given back and asked for again each time, page by page.
        """
        size, kind = weight.numel(), (dtype, weight.device)
        room = self._rooms.get(use)
        if room is None or room.numel() < size or (room.dtype, room.device) != kind:
            room = self._rooms[use] = torch.empty(size, dtype=dtype, device=weight.device)
        return room[:size].view(weight.shape)


class Saved:
    """A value of the forward, guarded against being overwritten in place later."""

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.detach()
        self._version = 0 if tensor.is_inference() else self._tensor._version

    def get(self, what: str = "a value", remake: Callable[[], Tensor] | None = None) -> Tensor:
        if self._tensor.is_inference() or self._tensor._version == self._version:
            return self._tensor
        if remake is not None:
            return remake()
        raise ModelError(
            f"{what} of shape {tuple(self._tensor.shape)} that the backward needs was overwritten "
            "since the forward: if the model itself does so (x += y, relu_), replace that by its "
            "ordinary form; if its weights were changed, record it again"
        )


class Step(torch.autograd.Function):
    """One operation in autograd's graph."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *operands: Tensor) -> Any:
        ctx.operation = operation
        ctx.set_materialize_grads(False)
        operation.count, operation.shapes = len(operands), tuple(t.shape for t in operands)
        operation.number = operation.current.recorded
        operation.current.recorded += 1
        result = operation.run(*operands)
        operation.current.holes.count(result)
        if isinstance(result, Tensor) and result._is_view():
            return result.clone()  # a view could not be written into
        return result

    @staticmethod
    def backward(ctx: Any, *slots: Tensor | None) -> Any:
        operation: Operation = ctx.operation
        operation.current.holes.count(*slots)
        if all(slot is None for slot in slots):
            return (None,) * (1 + operation.count)
        table = operation.current.table
        assert table is not None
        if operation.current.constants is not None:
            for term in operation.constant_terms(*slots):
                operation.current.constants(operation, term)
        return None, *operation.back(table.rule(operation), *slots)


class Operation:
    """``run`` forwards; ``gradient`` is the derivative; tables hold the other ways back."""

    #: which entry of a table applies
    kind = "generic"
    name = "operation"
    #: values pass through unchanged but for their scale
    transparent = False
    #: whether values of several tokens are weighed by attention
    attends = False
    #: which operand of a product was made of attention weights, and is none itself
    changed: int | None = None
    #: a learned map on the image itself
    reads_pixels = False
    #: whether values of several samples meet
    crosses = False
    #: whether only what gradients need is kept, and the rest made again
    lean = False
    #: how many operands there are, and of which shapes
    count = 1
    shapes: tuple[torch.Size, ...] = ()
    #: its place in the order of recording
    number: int
    current: Pass

    def run(self, *operands: Tensor) -> Any:
        raise NotImplementedError

    def gradient(self, *slots: Tensor | None) -> Slots:
        raise NotImplementedError

    def back(self, rule: Rule, *slots: Tensor | None) -> Slots:
        """The operands' slots by a rule."""
        return rule(self, *slots)

    def back_abreast(self, rule: Rule, targets: Sequence[Slots]) -> list[Slots]:
        """The operands' slots of several targets; what they share is made once and forgotten."""
        self.current.holes.count(*(slot for slots in targets for slot in slots))
        self.current.abreast = True
        try:
            return [
                (None,) * self.count
                if all(slot is None for slot in slots)
                else self.back(rule, *slots)
                for slots in targets
            ]
        finally:
            self.current.abreast = False
            self.__dict__.pop("_shared", None)

    def to_subject(self, slot: Tensor) -> Slots:
        """All of an output's slot for the one operand that it is about."""
        return (slot,)

    def constant_deviation(self, slot: Tensor) -> Slots:
        return self.gradient(slot)

    def constant_terms(self, *slots: Tensor | None) -> list[Tensor]:
        """What the operation's own constants, such as a bias, give: each times its slot."""
        return []

    def mean_square(self, z: Tensor) -> Tensor:
        """Over the features of a value, which are its last axis."""
        if z.ndim < 2:
            return z.square()
        norm = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
        return norm.square_().div_(z.shape[-1])

    def kept(self, key: str, make: Callable[[], Tensor]) -> Tensor:
        """A value that several targets share, made once while ``Pass.keep`` is on."""
        if not self.current.keep:
            shared: Tensor = self.shared(key, make)
            return shared
        memory = self.__dict__.setdefault("_memory", {})
        made = (key, self.current.fast)
        if made not in memory:
            memory[made] = make()
        return memory[made]

    def shared(self, key: Any, make: Callable[[], Any]) -> Any:
        """Something that is made once for targets side by side; it must not be written to then."""
        if not self.current.abreast:
            return make()
        made = self.__dict__.setdefault("_shared", {})
        if key not in made:
            made[key] = make()
        return made[key]


def adjoint(function: Callable[[Tensor], Tensor], x: Tensor, s: Tensor) -> Tensor:
    """The transpose of a linear function at x, applied to s."""
    transposed = torch.func.vjp(function, x)[1]
    return transposed(s)[0]
