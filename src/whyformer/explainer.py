"""Ask a model why."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from whyformer.asking import ask
from whyformer.engine import PRESETS, Preset, Scratch, Trace, record
from whyformer.engine.calls import Inputs, full_precision
from whyformer.errors import ModelError, UnknownNameError, nearest
from whyformer.explanation import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Blocks,
    Explanation,
)
from whyformer.methods import DEFAULT_METHOD, Method, get_method
from whyformer.methods.question import Question
from whyformer.targets import Asked, Target, label_list, resolve
from whyformer.tokens import Pooling, Tokens, lay_out
from whyformer.words import pieces_of

if TYPE_CHECKING:
    from whyformer.methods.question import Memory

DEFAULT_PRESET = "stable"


class Explainer:
    """Explains an unmodified classifier: any ``nn.Module`` that returns logits.

    ``labels`` names the classes (Hugging Face models bring theirs). ``pooling`` and ``grid``
    overrule what is read off the model: which row the classifier looks at, and the patch grid.
    ``cache_weights`` keeps |W| of every weight between calls: faster for single samples, at the
    price of a second copy of the weights.

    Examples:
        >>> explainer = whyformer.Explainer(whyformer.load("demo-vision").model)
        >>> explanation = explainer(torch.zeros(2, 3, 96, 96), target=3)
        >>> explanation.image_map().shape
        torch.Size([2, 96, 96])
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        labels: Mapping[int, str] | Sequence[str] | None = None,
        pooling: Pooling = None,
        grid: tuple[int, int] | None = None,
        cache_weights: bool = False,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise ModelError(f"Explainer takes an nn.Module, not {type(model).__name__}")
        self.model = model
        if labels is None:
            labels = getattr(getattr(model, "config", None), "id2label", None)
        self.labels = label_list(labels)
        self.problem = problem_of(model)
        self.pooling = pooling
        self.grid = grid
        self.scratch = Scratch()
        self._weights: dict[Any, tuple[Tensor, int, Tensor]] | None = {} if cache_weights else None

    def __call__(
        self,
        inputs: Inputs,
        target: Target = None,
        method: str = DEFAULT_METHOD,
        preset: str = DEFAULT_PRESET,
        *,
        content: Tensor | None = None,
        keep_blocks: bool = False,
        matrix: bool = False,
        **options: Any,
    ) -> Explanation:
        """Explain a batch: one forward, then what the method needs."""
        get_method(method), get_preset(preset)
        recording = Recording(self, inputs, content=content, remember=False)
        return recording.explain(
            target, method, preset, keep_blocks=keep_blocks, matrix=matrix, **options
        )

    def record(self, inputs: Inputs, *, content: Tensor | None = None) -> Recording:
        """Run the forward once and keep it: further targets and methods cost no new one."""
        return Recording(self, inputs, content=content, remember=True)

    def attribute(
        self,
        inputs: Inputs,
        target: Target = None,
        method: str = DEFAULT_METHOD,
        preset: str = DEFAULT_PRESET,
        **options: Any,
    ) -> Tensor:
        """The bare relevance of the content tokens, as Captum's ``attribute`` would return it.

        Images: (batch, patches). Text and sequences: (batch, tokens), special tokens zero.
        """
        explanation = self(inputs, target, method, preset, **options)
        content, relevance = explanation.content, explanation.relevance
        if explanation.grid is not None:
            return relevance[..., explanation.tokens.patches]
        shown = content if relevance.ndim == 2 else content.unsqueeze(1)
        return relevance.masked_fill(~shown, 0)

    def absolute(self, weight: Tensor, scratch: Scratch) -> Tensor:
        """|W|: kept between calls while the weight stays as it is, or made anew."""
        if self._weights is None or weight.is_inference():
            return torch.abs(weight, out=scratch.lend("|w|", weight))
        key = (weight.data_ptr(), weight.shape, weight.stride())
        entry = self._weights.get(key)
        if entry is None or entry[1] != weight._version:
            entry = (weight, weight._version, weight.abs())
            self._weights[key] = entry
        return entry[2]


class Recording:
    """A forward that was run once, to be asked about any target by any method."""

    def __init__(
        self, explainer: Explainer, inputs: Inputs, *, content: Tensor | None, remember: bool
    ) -> None:
        self._explainer = explainer
        placed = place(inputs, explainer.model)
        self.trace: Trace = record(explainer.model, placed, explainer.absolute, explainer.scratch)
        labels, classes = explainer.labels, self.trace.logits.shape[-1]
        if labels is not None and len(labels) != classes:
            raise ModelError(f"{len(labels)} labels for a model with {classes} classes")
        self.tokens: Tokens = lay_out(
            self.trace, inputs, explainer.pooling, explainer.grid, content
        )
        self.pieces = pieces_of(inputs, self.trace.batch)
        self._memory: dict[tuple[float, ...], Memory] | None = {} if remember else None

    @property
    def logits(self) -> Tensor:
        return self.trace.logits.detach()

    def explain(
        self,
        target: Target = None,
        method: str = DEFAULT_METHOD,
        preset: str = DEFAULT_PRESET,
        *,
        keep_blocks: bool = False,
        matrix: bool = False,
        **options: Any,
    ) -> Explanation:
        """Answer for a target by a method; maps already computed for the target are reused."""
        chosen, rules = get_method(method), get_preset(preset)
        if target is not None and not chosen.class_specific:
            warnings.warn(
                f"{method} is class-agnostic: it gives the same map for every class, so the target "
                "is ignored",
                stacklevel=2,
            )
            target = None
        asked = resolve(target, self.trace.logits, self._explainer.labels)
        answers, blocks = [], []
        for seed in asked.seeds:
            question = Question(
                self.trace,
                self.tokens,
                rules,
                seed,
                keep=len(asked.seeds) > 1 or self._memory is not None,
                full=matrix,
                memory={} if keep_blocks and self._memory is None else self._recall(seed),
            )
            with full_precision(self.trace.logits):
                answers.append(ask(chosen, question, options))
            if keep_blocks:
                blocks.append(question)
        return Explanation(
            relevance=_stack([a.relevance for a in answers], asked),
            logits=self.logits,
            target=asked.index if chosen.class_specific else None,
            method=method,
            preset=preset,
            tokens=self.tokens,
            input_relevance=_stack_optional([a.input_relevance for a in answers], asked),
            matrix=_stack_optional([a.matrix for a in answers], asked),
            blocks=_blocks(chosen, blocks, asked) if keep_blocks else None,
            notes=tuple(self._notes()),
            labels=self._explainer.labels,
            problem=self._explainer.problem,
            pieces=self.pieces,
            picture=None if self.trace.pixels is None else self.trace.pixels.detach(),
        )

    def _recall(self, seed: Tensor) -> Memory | None:
        """What is remembered of a target; the oldest of many targets is forgotten."""
        if self._memory is None:
            return None
        key = tuple(seed.flatten().tolist())
        while len(self._memory) >= 8 and key not in self._memory:
            self._memory.pop(next(iter(self._memory)))
        return self._memory.setdefault(key, {})

    def _notes(self) -> list[str]:
        seen = self.trace.seen
        notes = [
            f"{name} (x{count}) has no rule of its own: the generic rule (Eq. 2) was used"
            for name, count in sorted(seen.fallbacks.items())
        ]
        notes += [
            f"{name} is not visible to the recorder: its gradient carried the relevance"
            for name in self.trace.foreign
        ]
        notes += [
            f"a softmax of shape {shape} was not recognised as attention: its block is missing"
            for shape in self.trace.unrecognised
        ]
        notes += [
            f"{cut} cuts the graph: no relevance passes there" for cut in sorted(set(seen.cuts))
        ]
        if seen.cross_attention:
            notes.append(
                f"{seen.cross_attention} attention maps between different sequences were left out"
            )
        if self._explainer.model.training:
            notes.append("the model is in training mode: dropout may change the map")
        return notes


def get_preset(name: str) -> Preset:
    if name not in PRESETS:
        raise UnknownNameError(f"unknown preset {name!r}; {nearest(name, PRESETS)}")
    return PRESETS[name]


def place(inputs: Inputs, model: nn.Module) -> Inputs:
    """Inputs on the model's device; images and embeddings in its floating type, or float32."""
    parameter = next(model.parameters(), None)
    if parameter is None:
        return inputs
    dtype = torch.float64 if parameter.dtype is torch.float64 else torch.float32

    def move(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        cast = value.is_floating_point() and value.ndim >= 3
        return value.to(parameter.device, dtype if cast else None)

    if isinstance(inputs, Tensor):
        return move(inputs)
    if isinstance(inputs, Mapping):
        skip = {"special_tokens_mask", "offset_mapping"}
        return {key: move(value) for key, value in inputs.items() if key not in skip}
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        return [move(value) for value in inputs]
    return inputs


def problem_of(model: nn.Module) -> str:
    """What the head tells, by the model's own configuration: classes, labels or a number."""
    config = getattr(model, "config", None)
    declared = getattr(config, "problem_type", None)
    if declared in (SINGLE_LABEL, MULTI_LABEL, REGRESSION):
        return declared
    return REGRESSION if getattr(config, "num_labels", None) == 1 else SINGLE_LABEL


def _stack(parts: list[Tensor], asked: Asked) -> Tensor:
    return torch.stack(parts, 1) if asked.several else parts[0]


def _stack_optional(parts: Sequence[Tensor | None], asked: Asked) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return _stack(present, asked) if present else None


def _blocks(method: Method, questions: list[Question], asked: Asked) -> Blocks:
    def gather(maps: list[list[Tensor]]) -> list[Tensor]:
        return [_stack(list(block), asked) for block in zip(*maps, strict=True)]

    if not method.class_specific:
        return Blocks(questions[0].attention, None, None)
    return Blocks(
        questions[0].attention,
        gather([question.gradients() for question in questions]),
        gather([question.relevances() for question in questions]),
    )
