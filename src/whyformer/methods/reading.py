"""What a method reads: maps, streams and inputs, with their gradients and relevance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whyformer.errors import ModelError
from whyformer.methods.answer import Answer, Maps, Stream

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine import Forward, Preset, Start, Table, Trace
    from whyformer.sites import Site
    from whyformer.tokens import Tokens

#: functions of the results of some steps, by the number of the operation
Changed = Mapping[int, Callable[["Tensor"], "Tensor"]]
#: computed maps by table, sign of the start, and whether the last map's alone
Memory = dict[Any, Any]


class Reading:
    """What can be read of one target of one recorded forward, under one preset.

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

    def at(self, value: Tensor | None = None, changed: Changed | None = None) -> Any:
        """The same question at another value of the input, or with the results of steps changed."""
        if self._again is None:
            raise ModelError("this question cannot be asked at another input")
        return self._again(value, changed)

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
        return [self.shaped(a.weights.detach()) for a in seen.attention]

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

    def stream_products(self, table: Table | None = None) -> list[Tensor]:
        """sum_d x_b dy/dx_b of every block's stream; no gradient is kept beyond its block."""
        from whyformer.engine import GRADIENT

        entries = [block.entry for block in self.trace.seen.blocks]
        found = [entry.new_zeros(entry.shape[:-1]).detach() for entry in entries]

        def keep(number: int) -> Callable[[Tensor], None]:
            def seen(slope: Tensor) -> None:
                found[number] = (entries[number].detach() * slope).sum(-1)

            return seen

        passing = {entry: keep(number) for number, entry in enumerate(entries)}
        roots = [root.leaf for root in self.trace.seen.roots]
        self.trace.backward(table or GRADIENT, self.start, roots, passing=passing)
        return found

    @property
    def entered(self) -> Tensor:
        """The main input where it enters the graph: what ``at`` replaces."""
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

    def input_gradients(self, table: Table | None = None) -> list[Stream]:
        """Each input, and the gradient of the target by it."""
        from whyformer.engine import GRADIENT

        found = self.input_relevance(table or GRADIENT, self.start)
        return [Stream(x.detach(), slot) for x, slot in zip(self.roots, found, strict=True)]

    def at_input(self, values: Tensor, *others: Tensor) -> Answer:
        """Signed values at the inputs themselves, summed over features, and their sum per token."""
        pixels, tokens = self.sites[0].from_input(values)
        rest = tuple(
            site.from_input(value)[1] for site, value in zip(self.sites[1:], others, strict=False)
        )
        return Answer(tokens, input_relevance=pixels, others=rest)

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

    def _maps(self, table: Table, start: Start, last_only: bool, key: str) -> list[Tensor]:
        import torch

        def make() -> list[Tensor]:
            count = len(self.attention)
            chosen = [self._last] if last_only else list(range(count))
            of = [self.trace.seen.attention[i].weights for i in chosen]
            found = self.trace.backward(table, start, of, self._keep)
            return [
                self.shaped(torch.zeros_like(a) if slot is None else slot)
                for a, slot in zip(of, found, strict=True)
            ]

        if self._memory is None:
            return make()
        whole, part = (id(table), key, False), (id(table), key, True)
        if last_only and whole in self._memory:
            return self._memory[whole][1][self._last : self._last + 1]
        wanted = part if last_only else whole
        if wanted not in self._memory:
            self._memory[wanted] = (table, make())
        return list(self._memory[wanted][1])

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
