"""A forward that was run once, to be asked about any target by any method."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.asking import call_method, refuse_independent
from whyformer.engine import PRESETS, Forward, Preset, Start, Trace, record
from whyformer.engine.inputs import Inputs, as_call, as_ordinary, named
from whyformer.engine.precision import full_precision, is_fast
from whyformer.engine.rules import DEFAULT_PRESET, get_preset
from whyformer.errors import ModelError
from whyformer.explanation import Explanation, Part
from whyformer.joining import blocks_of, one_each, only, stack, stack_present
from whyformer.layout import find_sites
from whyformer.memory import BoundedMemory, graph_bytes
from whyformer.methods import DEFAULT_METHOD, Method, get_method
from whyformer.methods.beside import Beside
from whyformer.methods.question import Answer, Changed, Memory, Question
from whyformer.notes import notes_of, unread_edge, zero_maps
from whyformer.pooling import named_rows
from whyformer.sites import Site, last_tokens
from whyformer.targets import ResolvedTarget, Resolver, Target, fitting_labels
from whyformer.tokens import Tokens, told
from whyformer.words import Piece, pieces_of, unknown_note

if TYPE_CHECKING:
    from whyformer.explainer import Explainer


class Recording:
    """A forward that was run once, to be asked about any target by any method."""

    def __init__(
        self,
        explainer: Explainer,
        inputs: Inputs,
        *,
        content: Tensor | None = None,
        remember: bool = True,
        maps: bool = True,
    ) -> None:
        self._explainer = explainer
        self._placed = explainer.place(inputs)
        self._maps = maps
        self.trace: Trace = record(explainer.model, self._placed, explainer.output, maps)
        classes = self.trace.output.shape[-1]
        self.labels = fitting_labels(explainer.labels, explainer.labels_given, classes)
        self.sites: list[Site] = find_sites(self.trace, inputs, explainer.grid)
        if not self.sites:
            raise ModelError(
                "no input was seen to enter the model's graph: give token ids, images or features "
                "as tensors, by the names that the model's forward has for them"
            )
        self._inputs = inputs
        self._forward = self._make_forward()
        self._memory = BoundedMemory() if remember else None
        self.sites[0].tokens = self.tokens.with_content(self._content(content))
        self.pieces = pieces_of(inputs, self.trace.batch)

    def __copy__(self) -> Recording:
        """The same forward; what is changed on the way is the copy's alone."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> Any:
        raise TypeError(
            "a recording holds the model's forward, which cannot be copied or pickled; copy its "
            "explanations, or record the input again"
        )

    @property
    def tokens(self) -> Tokens:
        """The main input's tokens."""
        return self.sites[0].tokens

    @property
    def logits(self) -> Tensor:
        """What is asked about: a classifier's (batch, classes)."""
        return self.trace.output.detach()

    @property
    def bytes(self) -> int:
        """The memory that the recording takes: its graph, and the maps of what it was asked."""
        graph = graph_bytes(self.trace, self._explainer.model.parameters())
        return graph + (self._memory.bytes() if self._memory is not None else 0)

    def explain(
        self,
        target: Target = None,
        method: str = DEFAULT_METHOD,
        preset: str = DEFAULT_PRESET,
        *,
        keep_blocks: bool = False,
        matrix: bool = False,
        precision: str = "full",
        **options: Any,
    ) -> Explanation:
        """Answer for a target by a method; maps already computed for the target are reused.

        ``precision`` "fast": products on the way back are of bfloat16 numbers, summed in float32.
        """
        if is_fast(precision) and not self.trace.fast:
            options |= {"keep_blocks": keep_blocks, "matrix": matrix}
            return self._faster.explain(target, method, preset, **options)
        chosen, rules = get_method(method), get_preset(preset)
        # Of texts that all samples share, a target names the one whose rows are read.
        specific = chosen.class_specific or any(site.shared for site in self.sites)
        if target is not None and not specific and self.trace.output.ndim == 2:
            warnings.warn(
                f"{chosen.name} is class-agnostic: it gives the same map for every class, so the "
                "target is ignored",
                stacklevel=2,
            )
            target = None
        asked = self._resolve(target)
        several = len(asked.starts) > 1
        for start in asked.starts:
            refuse_independent(self.trace, start)
        questions = [
            self._question(rules, start, several, matrix, keep_blocks) for start in asked.starts
        ]
        if several and self._memory is None and not keep_blocks:
            Beside(questions)
        with full_precision(self.trace.output):
            answers = [self._answer(chosen, question, options) for question in questions]
        notes = notes_of(self.trace, self._explainer.model, chosen)
        notes += unread_edge(self.trace, self.sites[0])
        notes += unknown_note(self.pieces or [])
        parts = [
            Part(
                site.tokens,
                stack([a.parts[i] for a in answers], asked),
                stack_present([a.input_relevance for a in answers], asked) if i == 0 else None,
                self._pieces_of(site),
                self._picture_of(site),
                cells=answers[0].cells if i == 0 else None,
            )
            for i, site in enumerate(self.sites)
        ]
        notes += zero_maps([part.relevance for part in parts], questions[0], chosen)
        return Explanation(
            logits=self.logits,
            target=asked.index if specific else None,
            position=asked.position,
            asked=asked.words if specific else (),
            method=chosen.name,
            preset=preset,
            parts=tuple(parts),
            matrix=stack_present([a.matrix for a in answers], asked),
            rows=stack([q.rows for q in questions], asked) if matrix or keep_blocks else None,
            blocks=blocks_of(chosen, questions, asked) if keep_blocks else None,
            notes=tuple(notes),
            labels=self.labels,
            problem=self._explainer.problem,
        )

    def rows(self, target: Target = None) -> Tensor:
        """How much of each token's own row a target reads, (batch, tokens).

        A sample's sum to one; where attention pools the tokens, no row is read as it is.
        """
        (start,) = self._resolve(target).starts
        return self._question(PRESETS[DEFAULT_PRESET], start).rows

    def __repr__(self) -> str:
        name = type(self._explainer.model).__name__
        return f"Recording({name}, {[site.tokens for site in self.sites]})"

    # -- inside

    @cached_property
    def _faster(self) -> Recording:
        """The same recording, asked with fast products; it remembers its own maps."""
        other = copy.copy(self)
        other.trace = self.trace.faster()
        other._memory = None if self._memory is None else BoundedMemory()
        return other

    def _pieces_of(self, site: Site) -> list[list[Piece]] | None:
        """A text's pieces, where its tokens are those that a tokenizer made."""
        counts = [len(pieces) for pieces in self.pieces or []]
        return self.pieces if counts == [site.tokens.content.shape[1]] * site.batch else None

    def _picture_of(self, site: Site) -> Tensor | None:
        if site.tokens.kind != "image":
            return None
        return next(r.leaf for r in self.trace.seen.roots if r.name == site.tokens.name).detach()

    def _resolve(self, target: Target) -> ResolvedTarget:
        trace = self.trace
        whole = self._explainer.output is None and not isinstance(trace.returned, Tensor)
        returned = trace.returned if whole else trace.output
        mask = self._placed.get("attention_mask") if isinstance(self._placed, Mapping) else None
        last = last_tokens(self.sites, mask, trace.output)
        return Resolver(trace.output, returned, self.labels, last).resolve(target)

    def _question(
        self,
        preset: Preset,
        start: Start,
        several: bool = False,
        full: bool = False,
        keep_blocks: bool = False,
    ) -> Question:
        memory: Memory | None = {} if keep_blocks and self._memory is None else None
        if self._memory is not None:
            memory = self._memory.of(start)
        pooled = None
        if self._explainer.pooling is not None:
            pooled = named_rows(self._explainer.pooling, self.sites[0])
        return Question(
            self.trace,
            self.sites,
            preset,
            start,
            forward=lambda: self.forward,
            again=lambda value, changed: self._again(value, changed, preset, start),
            pooled=pooled,
            keep=several or self._memory is not None,
            full=full,
            memory=memory,
        )

    def _answer(self, method: Method, question: Question, options: dict[str, Any]) -> Answer:
        """Ask at once; or, where samples meet or were lost, for one sample after the other."""
        seen = self.trace.seen
        if self.trace.batch == 1 or not (seen.crossed or seen.lost):
            return call_method(method, question, options)
        answers = []
        for i in range(self.trace.batch):
            start = [(value, only(seed, i)) for value, seed in question.start]
            answers.append(call_method(method, self._question(question.preset, start), options))
        return one_each(answers)

    @property
    def forward(self) -> Forward:
        """The output as a function of the main input, for methods that vary it."""
        if self._forward is None:
            raise ModelError(
                "the model looks its token ids up in a way that cannot be repeated with other "
                "embeddings; methods that vary the input cannot be asked"
            )
        return self._forward

    def _make_forward(self) -> Forward | None:
        args, kwargs = as_call(self._placed)
        root = next(r for r in self.trace.seen.roots if r.name == self.tokens.name)
        own = None if root.ids is not None else named(args, kwargs).get(root.name)
        if own is None and root.lookup is None:
            return None
        return Forward(
            self._explainer.model, args, kwargs, root.leaf if own is None else own,
            self.trace.batch, root.lookup if own is None else None, self._explainer.output,
        )  # fmt: skip

    def _again(
        self, value: Tensor | None, changed: Changed | None, preset: Preset, start: Start
    ) -> Question:
        """The same question at another value of the main input, or with some steps changed."""
        if len(start) != 1:
            raise ModelError("a target of several outputs cannot be asked at another input")
        if self._forward is not None:
            self._forward.refuse_changed()
        numbers = [i for i, r in enumerate(self.trace.seen.roots) if r.name == self.tokens.name]
        explainer, other = self._explainer, copy.copy(self)
        replaced = {} if value is None else {numbers[0]: as_ordinary(value.detach())}
        other.trace = record(
            explainer.model, self._placed, explainer.output, self._maps, replaced, changed
        )
        other.trace.fast = self.trace.fast
        other.sites = find_sites(other.trace, self._inputs, explainer.grid)
        other.sites[0].tokens = self.sites[0].tokens
        other._memory = None
        return other._question(preset, [(other.trace.output, start[0][1])])

    def _content(self, given: Tensor | None) -> Tensor:
        """The content that was given, or what was found without the row that is only read."""
        found = self.tokens.content
        if given is not None:
            return given.to(device=found.device, dtype=torch.bool)
        if self.tokens.kind != "text" or self.trace.output.ndim != 2 or told(self._inputs):
            return found
        return found & ~self._class_token(found)

    def _class_token(self, content: Tensor) -> Tensor:
        """A first token that alone is read: a class token, where no tokenizer says so."""
        first = torch.zeros_like(content)
        if content.shape[0] == self.trace.batch:
            rows = self.rows()
            alone = (rows[:, 0] > 0) & (rows[:, 1:] == 0).all(1)
            first[:, 0] = alone & (content.shape[1] > 1)
        return first
