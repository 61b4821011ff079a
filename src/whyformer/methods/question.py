"""What a method is asked: to read, to roll layers out, to carry numbers down to the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whyformer.errors import MethodError, ModelError
from whyformer.methods.answer import Answer, Maps, Stream
from whyformer.methods.maps import Changed, Memory
from whyformer.methods.reading import Reading

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine import RollOut, Start

__all__ = ["Answer", "Changed", "Maps", "Memory", "Question", "Stream"]


class Question(Reading):
    """One target of one recorded forward, under one preset."""

    def about(self, seed: Tensor) -> Question:
        """The same forward, asked about the outputs with other weights: dy/doutput is ``seed``."""
        return Question(
            self.trace,
            self.sites,
            self.preset,
            [(self.trace.output, seed)],
            forward=self._forward,
            pooled=self._pooled,
            keep=self._keep,
            full=self._full,
        )

    def by_tower(self, method: Callable[[Question], Answer]) -> Answer:
        """The answer of a method that reads the last map, for each input by itself where every
        input has maps of its own: two towers have two last maps."""
        lasts = self.last_of_each
        if lasts is None:
            return method(self)
        found = []
        for site, last in zip(self.sites, lasts, strict=True):
            if last is None:
                found.append(site.read([None] * len(site.values)))
                continue
            pooled = self._pooled if site is self.sites[0] else None
            tower = Question(self.trace, [site], self.preset, self.start, pooled=pooled, keep=True)
            tower.__dict__["_last"] = last
            found.append(method(tower).relevance)
        return Answer.of(found)

    # -- answers

    def carry(self, masses: Sequence[Tensor]) -> Answer:
        """A number for each token of every block's stream, carried down to the inputs.

        ``masses`` have the streams' shapes without their last axis, input side first. Nothing
        passes through attention; merged tokens share, dropped ones get nothing.
        """
        from whyformer.engine import carry

        start = [
            (block.entry, (mass.unsqueeze(-1) / block.entry.shape[-1]).expand_as(block.entry))
            for block, mass in zip(self.trace.seen.blocks, masses, strict=True)
        ]
        found = carry(self.trace, start, self._values) if start else [None] * len(self._values)
        return self._answer(found)

    def pool(self, matrix: Tensor) -> Answer:
        """The asked row of the last map's (batch, tokens, tokens) matrix."""
        if matrix.ndim != 3:
            raise MethodError(
                f"pool was given shape {tuple(matrix.shape)}; expected (batch, tokens, tokens): "
                "average over the heads first"
            )
        answer = self._pooled_by(matrix)
        if not reaches_all(answer) and not reaches_all(self._pooled_by(matrix * 0 + 1)):
            raise ModelError(
                "the last attention map does not lead to the input's tokens for every sample: the "
                "model attends sample by sample, in chunks of queries or without skip connections; "
                "use a method that reads all maps, such as generic_attention"
            )
        return replace(answer, matrix=self._ordered(matrix) if self._full else None)

    def _pooled_by(self, matrix: Tensor) -> Answer:
        layers: list[Tensor | None] = [None] * len(self.attention)
        layers[self._last] = self._native(matrix, self._last)
        return self._answer(self.rolling.mixed(layers))

    def roll_out(self, layers: Sequence[Tensor | None], normalise_rows: bool = False) -> Answer:
        """The asked row of prod_b (I + layer_b), output side on the left.

        ``layers`` are (batch, queries, keys), averaged over heads, one for each map, input side
        first; None leaves a map out. The identity says that a token stems from itself: true, and
        no news. With a class token it falls on that token alone. With mean pooling it would be a
        constant under the whole map, so content tokens go without it; the matrix keeps it.
        """
        given = self._all_native(layers)
        if normalise_rows:
            answer = self._answer(self.rolling.divided(given, self._row_sums(layers)))
        else:
            own, mixed = self._read(self.rolling.own), self._read(self.rolling.mixed(given))
            answer = Answer.of(
                o.masked_fill(site.tokens.content, 0) + m
                for site, o, m in zip(self.sites, own, mixed, strict=True)
            )
        matrix = self._product(layers, normalise_rows) if self._full else None
        return replace(answer, matrix=matrix)

    @property
    def reached(self) -> list[Tensor]:
        """A of every map up to the last that what is asked about depends on."""
        return self.attention[: self._last + 1]

    def product(self, layers: Sequence[Tensor], normalise_rows: bool = False) -> Tensor:
        """prod_b (I + layer_b) as a whole, between the places of one sequence's stream."""
        total = layers[0].new_ones(layers[0].shape[:-1]).diag_embed()
        for layer in layers:
            mixed = total + layer @ total
            total = mixed / (1 + layer.sum(-1, keepdim=True)) if normalise_rows else mixed
        return total

    def onto_streams(self, layers: Sequence[Tensor], method: str) -> list[Tensor]:
        """What each map's layer gives to every place of its block's stream: a mean over queries.

        ``layers`` are as for ``roll_out``; the result has the streams' shapes without their last
        axis. A query that no query sees itself, such as padding, does not count.
        """
        from whyformer.engine.rules.mass import ByLayer, mass_table

        maps, blocks = self.trace.seen.attention, self.trace.seen.blocks
        found: list[Tensor | None] = []
        for number, (seen, block) in enumerate(zip(maps, blocks, strict=False)):
            shown = self.attention[number]
            each = self._native(layers[number] * mean_over_queries(shown), number)
            queries = shown.shape[0] * shown.shape[2]
            start = [
                (mix.out, mix.out.new_full(mix.out.shape, queries / mix.out.numel()))
                for mix in seen.mixes
            ]
            table = mass_table(ByLayer({mix.product: mix.native(each) for mix in seen.mixes}))
            found += self.trace.backward(table, start, [block.entry])
        kept = [slot.sum(-1) for slot in found if slot is not None]
        if not len(maps) == len(blocks) == len(kept):
            raise ModelError(
                f"{method} needs attention whose keys are the tokens of its block's own stream; "
                "this model has cross-attention, or attention without a skip connection: use "
                "generic_attention or fullgrad"
            )
        return kept

    def flow(
        self, layers: Sequence[Tensor | None], share: float = 0.0, signed: bool = False
    ) -> Answer:
        """sum_b e_b prod_{l < b} (I + share E_h A_l), output side on the left.

        e_b is what the asked rows r read of block b, carried down to the input: r layer_b. Of
        ``signed`` layers it is a - n |a - n| / (a + n), with a = r layer_b^+ what they say for a
        token and n = r layer_b^- against it; one row gives r layer_b again. ``layers`` are as in
        ``roll_out``.
        """
        given = self._all_native(layers)
        sizes = self._all_native(
            [layer.abs() if signed and layer is not None else None for layer in layers]
        )
        return self._answer(self.rolling.flow(given, sizes, share))

    @cached_property
    def rows(self) -> Tensor:
        """How much of each token's row is asked about, (batch, tokens)."""
        return self._read(self.rolling.own)[0]

    def by_token(self, values: Tensor) -> Tensor:
        """Values at the places of one sequence's stream, (batch, places), in the tokens' order."""
        order = self.sites[0].order
        return values if order is None else values[:, order]

    @cached_property
    def rolling(self) -> RollOut:
        from whyformer.engine import RollOut

        return RollOut(self.trace, self._mass, self._values)

    # -- inside

    @property
    def last_of_each(self) -> list[int | None] | None:
        """The last map that each input reaches; None where inputs meet in a map, or are one, or
        where there is no map."""
        from whyformer.engine.graph import nodes

        if len(self.sites) == 1:
            return None
        leaves: dict[Any, str] = {r.leaf: r.name for r in self.trace.seen.roots}
        lasts: dict[str, int] = {}
        for number, attention in enumerate(self.trace.seen.attention):
            above = nodes([attention.weights])
            variables = (getattr(node, "variable", None) for node in above)
            reaching = {leaves[leaf] for leaf in variables if leaf is not None and leaf in leaves}
            if len(reaching) > 1:
                return None
            if self._reachable(attention):
                lasts |= dict.fromkeys(reaching, number)
        return [lasts.get(site.tokens.name) for site in self.sites] if lasts else None

    @cached_property
    def _values(self) -> list[Tensor]:
        return [value for site in self.sites for value in site.values]

    @cached_property
    def _mass(self) -> Start:
        """One for what is asked about, a sample; or the rows that the caller named."""
        if self._pooled is None:
            return self._shares(False)
        stream = self.trace.seen.blocks[-1].exit
        rows = self._pooled.to(stream)
        if self.sequence_first(stream):
            rows = rows.mT
        return [(stream, (rows.unsqueeze(-1) / stream.shape[-1]).expand_as(stream))]

    def sequence_first(self, stream: Tensor) -> bool:
        from whyformer.engine.following import sequence_first

        return sequence_first(stream, self.trace.batch)

    def _all_native(self, layers: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [None if layer is None else self._native(layer, i) for i, layer in enumerate(layers)]

    def _native(self, layer: Tensor, number: int) -> Tensor:
        """A layer that was averaged over heads, in its map's own layout."""
        shaped, own = self.attention[number].shape, self.trace.seen.attention[number].weights.shape
        if tuple(layer.shape) != (shaped[0], *shaped[2:]):
            raise MethodError(
                f"layer {number} has shape {tuple(layer.shape)}; expected "
                f"{(shaped[0], *shaped[2:])}: (batch, queries, keys), averaged over the heads"
            )
        return layer.unsqueeze(1).expand(shaped).reshape(own)

    def _read(self, slots: Sequence[Tensor | None]) -> list[Tensor]:
        found, first = [], 0
        for site in self.sites:
            found.append(site.read(slots[first : first + len(site.values)]))
            first += len(site.values)
        return found

    def _answer(self, slots: Sequence[Tensor | None]) -> Answer:
        return Answer.of(self._read(slots))

    # -- whole matrices, for models that are one sequence

    def _ordered(self, matrix: Tensor) -> Tensor | None:
        """A matrix between the stream's places as one between the tokens."""
        if not self.one_sequence or matrix.shape[-1] != self.tokens.content.shape[1]:
            return None
        order = self.sites[0].order
        return matrix if order is None else matrix[:, order][:, :, order]

    def _row_sums(self, layers: Sequence[Tensor | None]) -> dict[Any, Tensor]:
        """What the rows of every block's layer sum to, in the layout of its skip connection."""
        blocks = self.trace.seen.blocks
        if not self.one_sequence or len(blocks) != len(self.attention):
            raise ModelError(
                f"the {self.preset.name!r} preset divides the rows of attention between the tokens "
                "of one sequence, which this model's attention is not; use the 'stable' preset"
            )
        sums = {}
        for block, layer in zip(blocks, layers, strict=True):
            if layer is not None:
                each = layer.sum(-1)
                each = each.mT if self.sequence_first(block.exit) else each
                sums[block.sum] = each.unsqueeze(-1)
        return sums

    def _product(self, layers: Sequence[Tensor | None], normalise_rows: bool) -> Tensor | None:
        """prod_b (I + layer_b) as a whole."""
        if not self.one_sequence:
            return None
        given = [layer for layer in layers if layer is not None]
        return self._ordered(self.product(given, normalise_rows))


def reaches_all(answer: Answer) -> bool:
    """Whether every sample has some relevance."""
    parts = [part.flatten(1).any(1) for part in answer.parts]
    return bool(sum(parts[1:], parts[0]).all())


def mean_over_queries(attention: Tensor) -> Tensor:
    """One over the number of queries, for those that count, (samples or windows, queries, 1).

    Between the tokens of one sequence a token that nothing attends to is padding.
    """
    rows = attention.new_ones(attention.shape[0], attention.shape[2], 1)
    if attention.shape[-1] == attention.shape[-2]:
        rows = (attention.amax((1, 2)) > 0).to(attention).unsqueeze(-1)
    return rows / rows.sum(1, keepdim=True).clamp(min=1)
