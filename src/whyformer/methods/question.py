"""What a method is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from whyformer.errors import MethodError, ModelError

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine import Forward, Preset, RollOut, Start, Table, Trace
    from whyformer.sites import Site
    from whyformer.tokens import Tokens

#: computed maps by table, sign of the start, and whether the last map's alone
Memory = dict[Any, Any]


@dataclass(frozen=True, eq=False)
class Answer:
    """Relevance of every token for what was asked about, (batch, tokens).

    ``matrix`` is the same for every token as the one that is asked about, (batch, tokens,
    tokens); ``input_relevance`` is signed and reaches the input itself. ``others`` is the
    relevance of the further inputs of a model that has several, in their order.
    """

    relevance: Tensor
    matrix: Tensor | None = None
    input_relevance: Tensor | None = None
    others: tuple[Tensor, ...] = ()


class Stream(NamedTuple):
    """A residual stream where it enters a block, and the gradient of the target there."""

    value: Tensor
    gradient: Tensor


class Maps(NamedTuple):
    """One block's attention, its gradient and its relevance."""

    attention: Tensor
    gradient: Tensor
    relevance: Tensor


class Question:
    """One target of one recorded forward, under one preset.

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
        again: Callable[[Tensor], Question] | None = None,
        pooled: Tensor | None = None,
        keep: bool = False,
        full: bool = False,
        memory: Memory | None = None,
    ) -> None:
        self.trace = trace
        self.sites = list(sites)
        self.preset = preset
        self.start = start
        self._forward, self._again = forward, again
        self._pooled = pooled
        self._keep = keep
        self._full = full
        self._memory = memory

    # -- what is asked

    @property
    def tokens(self) -> Tokens:
        """The main input's tokens."""
        return self.sites[0].tokens

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

    def at(self, value: Tensor) -> Question:
        """The same question at another value of the input: pixels, features or embeddings."""
        if self._again is None:
            raise ModelError("this question cannot be asked at another input")
        return self._again(value)

    # -- attention maps

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
        return [self._shaped(a.weights.detach()) for a in seen.attention]

    def gradients(self, last_only: bool = False, table: Table | None = None) -> list[Tensor]:
        """The gradient of the target by A, for every map or the last.

        ``table`` is another table of gradients, such as ``GRADIENTS["libra"]``.
        """
        from whyformer.engine import GRADIENT

        return self._maps(table or GRADIENT, self.start, last_only, "gradient")

    def relevances(
        self, table: Table | None = None, last_only: bool = False, signed: bool = False
    ) -> list[Tensor]:
        """The relevance of A by the preset's rules, or by others, for every map or the last.

        It starts from the target's shares in the outputs: their sizes, for methods that multiply
        by a gradient, which has the sign; or ``signed``.
        """
        table = table or self.preset.attribution
        return self._maps(table, self._shares(signed), last_only, f"relevance {signed}")

    def blocks(self) -> Iterator[Maps]:
        """Attention, gradient and relevance of one map after another, output side first."""
        gradients, relevances = self.gradients(), self.relevances()
        attention = list(self.attention)
        while attention:
            yield Maps(attention.pop(), gradients.pop(), relevances.pop())

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
                "windows, several sequences or merged tokens: use rollout or generic_attention"
            )

    # -- streams and inputs

    def streams(self, table: Table | None = None) -> list[Stream]:
        """x_b and dy/dx_b of the residual stream at every block's entry, input side first."""
        from whyformer.engine import GRADIENT

        blocks = self.trace.seen.blocks
        if not blocks:
            return []
        found = self.trace.backward(table or GRADIENT, self.start, [b.entry for b in blocks])
        return [
            Stream(block.entry.detach(), slot if slot is not None else block.entry.new_zeros(()))
            for block, slot in zip(blocks, found, strict=True)
        ]

    def input_relevance(self, table: Table, start: Start | None = None) -> list[Tensor]:
        """What a table carries to each input: pixels, features, or a text's embeddings."""
        import torch

        roots = [self._root(site) for site in self.sites]
        found = self.trace.backward(table, start or self._shares(True), roots, self._keep)
        return [
            torch.zeros_like(root) if slot is None else slot
            for root, slot in zip(roots, found, strict=True)
        ]

    def input_gradients(self, table: Table | None = None) -> list[Stream]:
        """Each input, and the gradient of the target by it."""
        from whyformer.engine import GRADIENT

        found = self.input_relevance(table or GRADIENT, self.start)
        return [
            Stream(self._root(site).detach(), slot)
            for site, slot in zip(self.sites, found, strict=True)
        ]

    def at_input(self, values: Tensor, *others: Tensor) -> Answer:
        """Signed values at the inputs themselves, summed over features, and their sum per token."""
        pixels, tokens = self.sites[0].from_input(values)
        rest = tuple(
            site.from_input(value)[1] for site, value in zip(self.sites[1:], others, strict=False)
        )
        return Answer(tokens, input_relevance=pixels, others=rest)

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
        return self._answer(carry(self.trace, start, self._values))

    # -- roll-outs

    @cached_property
    def rolling(self) -> RollOut:
        from whyformer.engine import RollOut

        return RollOut(self.trace, self._mass, self._values)

    @cached_property
    def rows(self) -> Tensor:
        """How much of each token's row is asked about, (batch, tokens)."""
        return self._read(self.rolling.own)[0]

    def pool(self, matrix: Tensor) -> Answer:
        """The asked row of the last map's (batch, tokens, tokens) matrix."""
        if matrix.ndim != 3:
            raise MethodError(
                f"pool was given shape {tuple(matrix.shape)}; expected (batch, tokens, tokens): "
                "average over the heads first"
            )
        last = self._last
        layers = [None] * last + [self._native(matrix, last)]
        layers += [None] * (len(self.attention) - len(layers))
        answer = self._answer(self.rolling.mixed(layers))
        return self._with_matrix(answer, self._ordered(matrix) if self._full else None)

    def roll_out(self, layers: Sequence[Tensor | None], normalise_rows: bool = False) -> Answer:
        """The asked row of prod_b (I + layer_b), output side on the left.

        ``layers`` are (batch, queries, keys), averaged over heads, one for each map, input side
        first; None leaves a map out. The identity says that a token stems from itself: true, and
        no news. With a class token it falls on that token alone. With mean pooling it would be a
        constant under the whole map, so content tokens go without it; the matrix keeps it.
        """
        given = [
            None if layer is None else self._native(layer, i) for i, layer in enumerate(layers)
        ]
        if normalise_rows:
            answer = self._answer(self.rolling.divided(given, self._row_sums(layers)))
        else:
            own, mixed = self._read(self.rolling.own), self._read(self.rolling.mixed(given))
            answer = self._parts(
                [
                    o.masked_fill(site.tokens.content, 0) + m
                    for site, o, m in zip(self.sites, own, mixed, strict=True)
                ]
            )
        return self._with_matrix(
            answer, self._product(layers, normalise_rows) if self._full else None
        )

    # -- inside

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
        if self._sequence_first(stream):
            rows = rows.mT
        return [(stream, (rows.unsqueeze(-1) / stream.shape[-1]).expand_as(stream))]

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

    def _root(self, site: Site) -> Tensor:
        """The input itself: an image's pixels, the sum of a text's embeddings, features."""
        named = [r for r in self.trace.seen.roots if r.name == site.tokens.name]
        return named[0].value

    def _sequence_first(self, stream: Tensor) -> bool:
        from whyformer.engine.following import sequence_first

        return sequence_first(stream, self.trace.batch)

    def _reachable(self, attention: Any) -> bool:
        return any(mix.product in self.trace.operations for mix in attention.mixes)

    @cached_property
    def _last(self) -> int:
        """The last map that what is asked about depends on."""
        count = len(self.attention)
        seen = self.trace.seen.attention
        return next((i for i in reversed(range(count)) if self._reachable(seen[i])), count - 1)

    def _maps(self, table: Table, start: Start, last_only: bool, key: str) -> list[Tensor]:
        import torch

        def make() -> list[Tensor]:
            count = len(self.attention)
            chosen = [self._last] if last_only else list(range(count))
            of = [self.trace.seen.attention[i].weights for i in chosen]
            found = self.trace.backward(table, start, of, self._keep)
            return [
                self._shaped(torch.zeros_like(a) if slot is None else slot)
                for a, slot in zip(of, found, strict=True)
            ]

        if self._memory is None:
            return make()
        whole, part = (table, key, False), (table, key, True)
        if last_only and whole in self._memory:
            return self._memory[whole][self._last : self._last + 1]
        if (part if last_only else whole) not in self._memory:
            self._memory[part if last_only else whole] = make()
        return list(self._memory[part if last_only else whole])

    def _shaped(self, weights: Tensor) -> Tensor:
        """A map as (samples or windows, heads, queries, keys), whatever the model's own layout."""
        if weights.ndim == 4:
            return weights
        lead = weights.shape[:-2].numel()
        if weights.ndim <= 3 and lead % self.trace.batch == 0:
            heads = lead // self.trace.batch
            return weights.reshape(self.trace.batch, heads, *weights.shape[-2:])
        return weights.reshape(lead, 1, *weights.shape[-2:])

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

    def _parts(self, relevances: Sequence[Tensor]) -> Answer:
        return Answer(relevances[0], others=tuple(relevances[1:]))

    def _answer(self, slots: Sequence[Tensor | None]) -> Answer:
        return self._parts(self._read(slots))

    def _with_matrix(self, answer: Answer, matrix: Tensor | None) -> Answer:
        return Answer(answer.relevance, matrix, answer.input_relevance, answer.others)

    # -- whole matrices, for models that are one sequence

    @cached_property
    def one_sequence(self) -> bool:
        """Whether every map is between the same tokens of one sequence, the main input's."""
        tokens = self.tokens.content.shape
        return len(self.sites) == 1 and all(
            a.shape[0] == self.trace.batch and a.shape[-2:] == (tokens[1], tokens[1])
            for a in self.attention
        )

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
                each = each.mT if self._sequence_first(block.exit) else each
                sums[block.sum] = each.unsqueeze(-1)
        return sums

    def _product(self, layers: Sequence[Tensor | None], normalise_rows: bool) -> Tensor | None:
        """prod_b (I + layer_b) as a whole."""
        if not self.one_sequence:
            return None
        given = [layer for layer in layers if layer is not None]
        total = given[0].new_ones(given[0].shape[:-1]).diag_embed()
        for layer in given:
            mixed = total + layer @ total
            total = mixed / (1 + layer.sum(-1, keepdim=True)) if normalise_rows else mixed
        return self._ordered(total)
