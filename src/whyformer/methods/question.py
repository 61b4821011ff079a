"""What a method is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whyformer.errors import MethodError, ModelError

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.engine import Forward, Preset, Rules, Trace
    from whyformer.tokens import Tokens

    #: maps that were computed: by rules, None for the gradient, and whether the last block's alone
    Memory = dict[tuple[Rules | None, bool], list[Tensor]]


@dataclass(frozen=True)
class Answer:
    """Relevance of every token for the pooled token, (batch, tokens).

    ``matrix`` is the same for every token as the one that is asked about, (batch, tokens,
    tokens); ``input_relevance`` is signed and reaches the input itself.
    """

    relevance: Tensor
    matrix: Tensor | None = None
    input_relevance: Tensor | None = None


class Question:
    """One target of one recorded forward, under one preset.

    Maps are (batch, heads, tokens, tokens), input side first.
    """

    def __init__(
        self,
        trace: Trace,
        tokens: Tokens,
        preset: Preset,
        gradient_seed: Tensor,
        *,
        keep: bool = False,
        full: bool = False,
        memory: Memory | None = None,
    ) -> None:
        self.trace = trace
        self.tokens = tokens
        self.preset = preset
        self._seed = gradient_seed
        self._keep = keep
        self._full = full
        self._memory = memory

    @property
    def seed(self) -> Tensor:
        """dy/dlogits, (batch, classes): one for the target's class, for most targets."""
        return self._seed

    @property
    def forward(self) -> Forward:
        """The logits as a function of the input: ``forward(forward.root, *forward.sides)``."""
        return self.trace.forward

    @property
    def attention(self) -> list[Tensor]:
        """A of every block."""
        return self.trace.attention

    def gradients(self, last_only: bool = False) -> list[Tensor]:
        """The gradient of the target's logit by A, for every block or the last."""
        return self._remember(None, last_only, lambda: self.trace.gradients(self._seed, last_only))

    def relevances(self, rules: Rules | None = None, last_only: bool = False) -> list[Tensor]:
        """The relevance of A by the preset's rules, or by others, for every block or the last."""
        rules = rules or self.preset.attribution
        return self._remember(
            rules,
            last_only,
            lambda: self.trace.relevances(rules, self._start(), last_only, self._keep),
        )

    def input_relevance(self, rules: Rules) -> Tensor:
        """The relevance of the pixels, or of the text's embeddings, before any sum."""
        return self.trace.input_relevance(rules, self._start(), self._keep)

    def at_input(self, values: Tensor) -> Answer:
        """Signed values at the input itself, summed over channels, and their sum per token."""
        if values.ndim == 4 and self.tokens.kind != "image":
            raise ModelError(
                "the image's patch grid is unknown, so its pixels cannot be summed over tokens; "
                "give Explainer(model, grid=(rows, columns))"
            )
        if self.tokens.kind == "image":
            pixels = values.sum(1)
            return Answer(self.tokens.from_pixels(pixels), input_relevance=pixels)
        words = values.flatten(2).sum(-1) if values.ndim > 2 else values
        return Answer(self.tokens.from_input(words), input_relevance=words)

    def pool(self, matrix: Tensor) -> Answer:
        """The pooled token's row of a (batch, tokens, tokens) matrix."""
        if matrix.ndim != 3:
            raise MethodError(
                f"pool was given shape {tuple(matrix.shape)}; expected (batch, tokens, tokens): "
                "average over the heads first"
            )
        row = (self.tokens.rows.to(matrix).unsqueeze(1) @ matrix).squeeze(1)
        return Answer(row, matrix if self._full else None)

    def roll_out(self, layers: Sequence[Tensor], normalise_rows: bool = False) -> Answer:
        """The pooled token's row of prod_b (I + layer_b), output side on the left.

        ``layers`` are (batch, tokens, tokens), input side first. The identity, carried apart from
        what the layers mix, says that a token stems from itself: true, and no news. With a class
        token it falls on that token alone. With mean pooling it would be a constant under the
        whole map and drown it in rounding errors, so content tokens go without it; the matrix
        keeps it.
        """
        rows = self.tokens.rows.to(layers[0])
        own = rows.new_ones(rows.shape).diag_embed() if self._full else rows.unsqueeze(1)
        mixed = own.new_zeros(own.shape)
        for layer in reversed(layers):
            if normalise_rows:
                sums = (1 + layer.sum(-1)).unsqueeze(1)
                own, mixed = own / sums, mixed / sums
            mixed = mixed + (own + mixed) @ layer
        matrix = own + mixed if self._full else None
        if self._full:
            own, mixed = rows.unsqueeze(1) @ own, rows.unsqueeze(1) @ mixed
        if not normalise_rows:
            own = own.masked_fill(self.tokens.content.unsqueeze(1), 0)
        return Answer((own + mixed).squeeze(1), matrix)

    def _start(self) -> Tensor:
        """One for the target's logit; for a callable target, its logits' shares in it."""
        share = self._seed.abs()
        return share / share.sum(-1, keepdim=True)

    def _remember(
        self, rules: Rules | None, last_only: bool, make: Callable[[], list[Tensor]]
    ) -> list[Tensor]:
        if self._memory is None:
            return make()
        if last_only and (rules, False) in self._memory:
            return self._memory[rules, False][-1:]
        if (rules, last_only) not in self._memory:
            self._memory[rules, last_only] = make()
        return self._memory[rules, last_only]
