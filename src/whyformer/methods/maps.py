"""What a method reads of attention: maps, their gradients and their relevance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from whyformer.errors import ModelError
from whyformer.methods.answer import Maps
from whyformer.methods.tables import gradient_table

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine import Forward, Preset, Start, Table, Trace
    from whyformer.methods.beside import Beside
    from whyformer.sites import Site
    from whyformer.tokens import Tokens

#: functions of the results of some steps, by the number of the operation
Changed = Mapping[int, Callable[["Tensor"], "Tensor"]]
#: computed maps by table, sign of the start, and whether the last map's alone
Memory = dict[Any, Any]


class Backward(NamedTuple):
    """A table, and what it starts from: the target's slots; or its shares, ``signed`` or not."""

    table: Table
    start: Start
    signed: bool | None = None


class MapReading:
    """The attention maps of one target of one recorded forward, under one preset.

    Maps are (batch, heads, queries, keys), input side first; windows stand beside the samples.
    """

    def __init__(
        self,
        trace: Trace,
        sites: Sequence[Site],
        preset: Preset,
        start: Start,
        *,
        forward: Callable[[], Forward] | None = None,
        again: Callable[[Tensor | None, Changed | None], Any] | None = None,
        pooled: Tensor | None = None,
        keep: bool = False,
        full: bool = False,
        memory: Memory | None = None,
    ) -> None:
        self._beside: Beside | None = None
        self.trace = trace
        self.sites = list(sites)
        self.preset = preset
        self.start = start
        self._forward, self._again = forward, again
        self._pooled = pooled
        self._keep = keep
        self._full = full
        self._memory = memory

    @property
    def tokens(self) -> Tokens:
        """The main input's tokens."""
        return self.sites[0].tokens

    @cached_property
    def attention(self) -> list[Tensor]:
        """A of every map."""
        from whyformer.engine.refusals import why_cut, why_no_attention

        seen = self.trace.seen
        if not seen.attention and not seen.fused:
            raise ModelError(
                "no self-attention was seen in the model's forward: no softmax whose result "
                f"multiplies other activations; {why_no_attention(seen)}; "
                "gradient_x_input needs none"
            )
        if not seen.attention:
            raise ModelError(
                "this recording keeps no attention maps, which the method needs: record the input "
                "for a method that reads them"
            )
        lost = [i for i, a in enumerate(seen.attention) if not self._reachable(a)]
        if lost and (seen.cuts or len(lost) == len(seen.attention)):
            raise ModelError(
                f"the logits do not depend on {len(lost)} of the model's {len(seen.attention)} "
                f"attention maps (block {lost[-1]}): {why_cut(seen)}"
            )
        return [self.shaped(a.weights.detach()) for a in seen.attention]

    def gradients(self, last_only: bool = False, table: Table | str = "gradient") -> list[Tensor]:
        """The gradient of the target by A, for every map or the last.

        ``table`` is a table of gradients or its name, such as "libra".
        """
        return self._maps(self.by_gradient(table), last_only)

    def relevances(
        self, table: Table | None = None, last_only: bool = False, signed: bool = False
    ) -> list[Tensor]:
        """The relevance of A by the preset's rules, or by others, for every map or the last.

        It starts from the target's shares in the outputs: their sizes, for methods that multiply
        by a gradient, which has the sign; or ``signed``.
        """
        return self._maps(self.by_relevance(table, signed), last_only)

    def blocks(self) -> Iterator[Maps]:
        """Attention, gradient and relevance of one map after another, output side first."""
        for number, (g, r) in self.each_map(self.by_gradient(), self.by_relevance()):
            yield Maps(self.attention[number], g, r)

    def each_map(
        self, *backwards: Backward, last_only: bool = False
    ) -> Iterator[tuple[int, list[Tensor]]]:
        """The number of each map and what some backwards put there, output side first.

        The backwards go down the model together; no map is kept beyond its block, unless the
        recording remembers what it was asked.
        """
        from whyformer.engine.descent import descend

        count = len(self.attention)
        if self._memory is not None or last_only:
            kept = [self._maps(backward, last_only) for backward in backwards]
            for number in reversed(range(count - len(kept[0]), count)):
                yield number, [maps[number - count] for maps in kept]
            return
        of = [attention.weights for attention in self.trace.seen.attention]
        passes = [(backward.table, [backward.start]) for backward in backwards]
        for number, slots in descend(self.trace, passes, of, self._keep):
            yield number, [self._map_of(of[number], slot) for (slot,) in slots]

    def layers(
        self,
        make: Callable[[int, list[Tensor]], Tensor],
        *backwards: Backward,
        blocks: Sequence[int] | None = None,
    ) -> list[Tensor | None]:
        """What ``make`` makes of each map's number and of what some backwards put there.

        ``blocks`` are the maps that are wanted, all by default; the others' layers are None.
        Targets that are asked about in one call go down the model together: ``make`` is given the
        maps of the others, too, and must not depend on the target.
        """
        count = len(self.attention)
        left = set(range(count) if blocks is None else blocks)
        if self._beside is not None:
            return self._beside.layers(self, make, backwards, left)
        layers: list[Tensor | None] = [None] * count
        for number, maps in self.each_map(*backwards, last_only=left == {count - 1}):
            if number in left:
                layers[number] = make(number, maps)
                left.remove(number)
            if not left:
                break
        return layers

    def alike(self, backward: Backward) -> Backward:
        """Another target's backward, for this one."""
        if backward.signed is None:
            return self.by_gradient(backward.table)
        return self.by_relevance(backward.table, backward.signed)

    def by_gradient(self, table: Table | str = "gradient") -> Backward:
        return Backward(gradient_table(table), self.start)

    def by_relevance(self, table: Table | None = None, signed: bool = False) -> Backward:
        table = table or self.preset.attribution
        return Backward(table, self._shares(signed), signed)

    @property
    def last_attention(self) -> Tensor:
        """A of the last map that what is asked about depends on."""
        return self.attention[self._last]

    def columns(self, maps: Tensor) -> Tensor:
        """Which keys of some maps are content, as ones and zeros that multiply them."""
        content = self.tokens.content
        if not self.one_sequence:
            return maps.new_ones(1, 1, 1, maps.shape[-1])
        order = self.sites[0].order
        if order is not None:
            content = content[:, order.argsort()]
        return content[:, None, None, :].to(maps)

    def needs_one_sequence(self, method: str) -> None:
        if not self.one_sequence:
            raise ModelError(
                f"{method} needs attention between the tokens of one sequence; this model has "
                "windows, several sequences, merged tokens, heads in groups or keys beside the "
                "tokens: use rollout or generic_attention"
            )

    # -- inside

    def _shares(self, signed: bool) -> Start:
        """One for the target's output; for several, their shares in it."""
        totals = [seed.abs().flatten(1).sum(1) for _, seed in self.start]
        total = sum(totals[1:], totals[0])
        return [
            (
                value,
                (seed if signed else seed.abs())
                / total.clamp(min=1e-30).view(-1, *[1] * (seed.ndim - 1)),
            )
            for value, seed in self.start
        ]

    def _reachable(self, attention: Any) -> bool:
        return any(mix.product in self.trace.operations for mix in attention.mixes)

    @cached_property
    def _last(self) -> int:
        """The last map that what is asked about depends on."""
        count = len(self.attention)
        seen = self.trace.seen.attention
        return next((i for i in reversed(range(count)) if self._reachable(seen[i])), count - 1)

    def _maps(self, backward: Backward, last_only: bool) -> list[Tensor]:
        table, start, signed = backward

        def make() -> list[Tensor]:
            count = len(self.attention)
            chosen = [self._last] if last_only else list(range(count))
            of = [self.trace.seen.attention[i].weights for i in chosen]
            found = self.trace.backward(table, start, of, self._keep)
            return [self._map_of(a, slot) for a, slot in zip(of, found, strict=True)]

        if self._memory is None:
            return make()
        whole, part = (id(table), signed, False), (id(table), signed, True)
        if last_only and whole in self._memory:
            return self._memory[whole][1][self._last : self._last + 1]
        wanted = part if last_only else whole
        if wanted not in self._memory:
            self._memory[wanted] = (table, make())
        return list(self._memory[wanted][1])

    def _map_of(self, attention: Tensor, slot: Tensor | None) -> Tensor:
        """A map's slot as a map; where nothing arrives, zeros."""
        return self.shaped(attention.new_zeros(attention.shape) if slot is None else slot)

    def shaped(self, weights: Tensor) -> Tensor:
        """A map as (samples or windows, heads, queries, keys), whatever the model's own layout."""
        if weights.ndim == 4:
            return weights
        lead = weights.shape[:-2].numel()
        whole = weights.shape[-2] in (self.tokens.content.shape[1], 1)
        if weights.ndim <= 3 and lead % self.trace.batch == 0 and whole:
            heads = lead // self.trace.batch
            return weights.reshape(self.trace.batch, heads, *weights.shape[-2:])
        return weights.reshape(lead, 1, *weights.shape[-2:])

    @cached_property
    def one_sequence(self) -> bool:
        """Whether every map is between the same tokens of one sequence, the main input's."""
        tokens = self.tokens.content.shape
        return len(self.sites) == 1 and all(
            a.shape[0] == self.trace.batch and a.shape[-2:] == (tokens[1], tokens[1])
            for a in self.attention
        )
