"""What a method reads: maps, and streams and inputs with their gradients and relevance."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from whyformer.errors import ModelError
from whyformer.methods.answer import Answer, Stream
from whyformer.methods.maps import Changed, MapReading
from whyformer.methods.tables import gradient_table

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine import Forward, Start, Table


class Reading(MapReading):
    """What can be read of one target of one recorded forward, under one preset."""

    # -- what is asked

    @property
    def seed(self) -> Tensor:
        """dy/doutput, of the output's shape: one for the target's class, for most targets."""
        if len(self.start) != 1 or self.start[0][0] is not self.trace.output:
            raise ModelError(
                "the target reads several of the model's outputs; this method asks for one: give "
                "Explainer(model, output=...)"
            )
        return self.start[0][1]

    @property
    def forward(self) -> Forward:
        """The output as a function of the input: ``forward(forward.root, *forward.sides)``."""
        if self._forward is None:
            raise ModelError("the model reads neither an image, nor features, nor token ids")
        return self._forward()

    def at(self, value: Tensor | None = None, changed: Changed | None = None) -> Any:
        """The same question at another value of the input, or with the results of steps changed."""
        if self._again is None:
            raise ModelError("this question cannot be asked at another input")
        return self._again(value, changed)

    # -- streams and inputs

    def streams(self, table: Table | str = "gradient") -> list[Stream]:
        """x_b and dy/dx_b of the residual stream at every block's entry, input side first."""
        blocks = self.trace.seen.blocks
        if not blocks:
            return []
        found = self.trace.backward(gradient_table(table), self.start, [b.entry for b in blocks])
        return [
            Stream(block.entry.detach(), slot if slot is not None else block.entry.new_zeros(()))
            for block, slot in zip(blocks, found, strict=True)
        ]

    def stream_products(
        self,
        table: Table | str = "gradient",
        each_map: Callable[[int, Tensor], None] | None = None,
    ) -> list[Tensor]:
        """sum_d x_b dy/dx_b of every block's stream; no gradient is kept beyond its block.

        ``each_map`` is called on the way with the number of every map and the gradient there.
        """
        entries = [block.entry for block in self.trace.seen.blocks]
        found = [entry.new_zeros(entry.shape[:-1]).detach() for entry in entries]

        def keep(number: int) -> Callable[[Tensor], None]:
            def seen(slope: Tensor) -> None:
                found[number] = (entries[number].detach() * slope).sum(-1)

            return seen

        passing = {entry: keep(number) for number, entry in enumerate(entries)}
        if each_map is not None:
            for number, attention in enumerate(self.trace.seen.attention):
                passing[attention.weights] = partial(self._shown, each_map, number)
        roots = [root.leaf for root in self.trace.seen.roots]
        self.trace.backward(gradient_table(table), self.start, roots, passing=passing)
        return found

    @property
    def input(self) -> Tensor:
        """The main input where it enters the model, pixels, features or embeddings: what ``at``
        replaces."""
        seen = self.trace.seen.roots
        return next(r for r in seen if r.name == self.tokens.name).leaf.detach()

    @cached_property
    def roots(self) -> list[Tensor]:
        """The inputs themselves: an image's pixels, the sum of a text's embeddings, features."""
        seen = self.trace.seen.roots
        return [next(r for r in seen if r.name == site.tokens.name).value for site in self.sites]

    def input_relevance(self, table: Table, start: Start | None = None) -> list[Tensor]:
        """What a table carries to each input: pixels, features, or a text's embeddings."""
        import torch

        found = self.trace.backward(table, start or self._shares(True), self.roots, self._keep)
        return [
            torch.zeros_like(root) if slot is None else slot
            for root, slot in zip(self.roots, found, strict=True)
        ]

    def input_gradients(self, table: Table | str = "gradient") -> list[Stream]:
        """Each input, and the gradient of the target by it."""
        found = self.input_relevance(gradient_table(table), self.start)
        return [Stream(x.detach(), slot) for x, slot in zip(self.roots, found, strict=True)]

    def at_input(self, values: Tensor, *others: Tensor) -> Answer:
        """Signed values at the inputs themselves, summed over features, and their sum per token."""
        pixels, tokens = self.sites[0].from_input(values)
        rest = zip(self.sites[1:], others, strict=False)
        return Answer.of([tokens, *(site.from_input(value)[1] for site, value in rest)], pixels)

    # -- inside

    def _shown(self, each_map: Callable[[int, Tensor], None], number: int, slope: Tensor) -> None:
        each_map(number, self.shaped(slope))
