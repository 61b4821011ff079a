"""Where inputs enter the graph: floats as they are given, token ids where they are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.following import carried, follow_move, follow_operands, mark, tensors_in
from whyformer.engine.forward_record import ForwardRecord, Root
from whyformer.engine.names import MOVES
from whyformer.engine.precision import HALF
from whyformer.engine.samples import Samples

#: what takes rows of a table by token ids
LOOKUPS = frozenset("embedding __getitem__ index_select embedding_bag".split())


class Roots:
    """The roots of one recording, and the ids that may still become one.

    ``replaced`` are values for some of the roots, by their number.
    """

    def __init__(self, seen: ForwardRecord, batch: int, replaced: Mapping[int, Tensor]) -> None:
        self._seen = seen
        self._batch = batch
        self._replaced = replaced
        self._ids: dict[int, tuple[Tensor, str]] = {}
        self._leaves: dict[int, Tensor] = {}
        self._lookups = 0

    def holds(self, value: Tensor) -> bool:
        return id(value) in self._leaves

    def enter(
        self, name: str, value: Tensor, ids: Tensor | None = None, lookup: int | None = None
    ) -> Tensor:
        """A new root; the model gets a copy, which it may write into."""
        value = self._replaced.get(len(self._seen.roots), value)
        wide = value.float() if value.dtype in HALF else value.detach()
        leaf = wide.requires_grad_()
        self._leaves[id(leaf)] = leaf
        copy = leaf.clone()
        samples = (None if ids is None else carried(ids)) or Samples.first(len(leaf), self._batch)
        mark(copy, samples)
        mark(leaf, samples)
        self._seen.roots.append(Root(name, leaf, leaf if ids is None else copy, ids, lookup))
        return copy

    def give_ids(self, ids: Tensor, name: str) -> None:
        """Follow an input's token ids to where they are looked up."""
        self._ids[id(ids)] = (mark(ids, Samples.first(len(ids), self._batch)), name)

    def constant(self, name: str, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """A call without activations: parameters are constants, token ids are followed."""
        with torch.no_grad() if any(t.requires_grad for t in tensors) else nullcontext():
            result = func(*args, **kwargs)
        if name == "embedding":
            self._lookups += 1
        lost = next((t._cut for t in tensors if hasattr(t, "_cut")), None)
        if lost is not None:
            for out in tensors_in((result,)):
                out._cut = lost  # type: ignore[attr-defined]
        given = next((self._ids[id(t)] for t in tensors if id(t) in self._ids), None)
        if given is None:
            return result
        ids, source = given
        if isinstance(result, Tensor) and result.is_floating_point():
            if name not in LOOKUPS:
                return result
            lookup = self._lookups - 1 if name == "embedding" else None
            return self._embed(source, ids, result, lookup)
        if name in MOVES:
            follow_move(name, func, args, kwargs, result)
        for out in tensors_in((result,)) if name != "__setitem__" else (args[0],):
            if not out.is_floating_point() and out.dtype is not torch.bool:
                if carried(out) is None:
                    follow_operands((ids,), out)
                self._ids[id(out)] = (out, source)
        return result

    def _embed(self, name: str, ids: Tensor, out: Tensor, lookup: int | None) -> Tensor:
        """Text enters the graph where its embeddings do; those of positions are constants.

        Ids that the model made of the given ones, shifting them, are its decoder's.
        """
        first = next((root.ids for root in self._seen.roots if root.name == name), None)
        if first is not None and first.shape == ids.shape and not torch.equal(first, ids):
            name = f"decoder_{name}"
        return self.enter(name, out, ids, lookup)
