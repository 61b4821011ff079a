"""What a forward revealed about its model: inputs, attention, streams, what was not followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from whyformer.engine.matrices import Product
from whyformer.engine.mixing import Sum
from whyformer.engine.operations import Operation


@dataclass(eq=False)
class Mix:
    """One product A V: its operation, its result, and a layer in its own layout of A."""

    product: Product
    out: Tensor
    native: Callable[[Tensor], Tensor]


@dataclass(eq=False)
class Attention:
    """One attention map: its weights as (..., query, key), and the products A V that use it."""

    weights: Tensor
    softmax: Operation | None
    mixes: list[Mix] = field(default_factory=list)


@dataclass(eq=False)
class Block:
    """A skip connection around attention: the stream that enters it, and what leaves it."""

    entry: Tensor
    exit: Tensor
    sum: Sum


@dataclass(eq=False)
class Branch:
    """A skip connection around something without attention that may mix tokens."""

    entry: Tensor
    branch: Tensor


@dataclass(eq=False)
class Convolution:
    """The result of a convolution, whether its windows overlap, and how far apart they are.

    ``maps`` is the number of attention maps that were seen before it.
    """

    out: Tensor
    overlaps: bool
    maps: int
    steps: tuple[int, ...]


@dataclass(eq=False)
class Made:
    """What a stream may consist of: the result of a skip connection, with its entry, or a norm."""

    operation: Operation
    out: Tensor
    entry: Tensor | None = None


@dataclass(eq=False)
class Root:
    """Where an input enters the graph: a leaf, under the input's name.

    ``value`` is what explanations are read at: for a text the sum of its embeddings. ``ids`` are
    the token ids that were looked up, and ``lookup`` the number of that call of ``embedding``.
    """

    name: str
    leaf: Tensor
    value: Tensor
    ids: Tensor | None = None
    lookup: int | None = None


@dataclass(eq=False)
class ForwardRecord:
    """The recorder's result."""

    attention: list[Attention] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)
    #: skip connections and norms in the order of the forward; of a lean recording, none
    made: list[Made] = field(default_factory=list)
    convolutions: list[Convolution] = field(default_factory=list)
    softmaxes: list[tuple[Operation, tuple[int, ...]]] = field(default_factory=list)
    fallbacks: dict[str, int] = field(default_factory=dict)
    #: where values that others read were lost to autograd, and where any last was
    cuts: list[str] = field(default_factory=list)
    last_cut: str | None = None
    #: fused attention of which no map is stored
    fused: int = 0
    #: whether samples of the batch meet one another, as images and texts do in CLIP
    crossed: bool = False
    #: whether it was lost, somewhere, whose each value is
    lost: bool = False

    def exchange(self, one: Tensor, other: Tensor) -> None:
        """Two tensors that changed their contents: what was noted of one is the other's."""
        mixes = [mix for attention in self.attention for mix in attention.mixes]
        noted = (
            self.attention,
            mixes,
            self.blocks,
            self.branches,
            self.convolutions,
            self.made,
            self.roots,
        )
        for record in (record for records in noted for record in records):
            for name, value in vars(record).items():
                if value is one or value is other:
                    setattr(record, name, other if value is one else one)
