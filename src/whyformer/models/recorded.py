"""An input that a model has read, to be asked about: what all kinds share, and one forward's."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from whyformer.engine.rules import DEFAULT_PRESET
from whyformer.erasing import output_without
from whyformer.errors import InputError, ModelError
from whyformer.explanation import Explanation
from whyformer.methods import Method, default_methods, get_method
from whyformer.recording import Recording
from whyformer.targets import Target, class_index

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline

#: puts what people see into an explanation: pictures, pieces of a text, sounds
Show = Callable[[Explanation], Explanation]


@dataclass(frozen=True)
class Ask:
    """How something is asked: by which method, under which preset, with which options."""

    method: str
    preset: str
    options: Mapping[str, Any]

    def __call__(self, recording: Recording, target: Any, **other: Any) -> Explanation:
        return recording.explain(target, self.method, self.preset, **{**self.options, **other})


class Recorded(ABC):
    """An input that the model has read, to be asked about any target by any method."""

    #: whether it can be asked about several classes at once
    several: ClassVar[bool] = True
    #: called between the parts of long work; what it raises ends that
    pause: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, pipeline: Pipeline, logits: Tensor, labels: list[str] | None = None) -> None:
        self.pipeline, self.logits = pipeline, logits
        #: what the columns of the logits are called
        self.labels = pipeline.labels if labels is None else labels

    def index_of(self, item: Any) -> Any:
        """The number of a class that was named or numbered."""
        return class_index(item, self.logits.shape[-1], self.labels)

    def where(self, **given: Any) -> dict[str, Any]:
        """What was given of ``position``, ``edge``, ``region``; a model may have none of them."""
        known = inspect.signature(self._explain).parameters
        stated = {name: value for name, value in given.items() if value is not None}
        for name in stated:
            if name not in known:
                raise InputError(
                    f"{self.pipeline.name} is not asked by {name}; leave {name} out"
                    if "position" in known
                    else f"{self.pipeline.name} gives one answer for all of its input; leave "
                    f"{name} out"
                )
        return stated

    @property
    def places(self) -> list[str]:
        """What positions are called, from 0 on, where an input has several to choose from."""
        return []

    def likeliest(self, count: int, position: Any = None) -> list[int]:
        """The classes to ask about first; none where the model itself says what it is asked."""
        return self.logits[0].argsort(descending=True)[:count].tolist()

    @property
    @abstractmethod
    def bytes(self) -> int:
        """The memory that is kept for further questions."""

    def explain(
        self,
        target: Target = None,
        method: str | None = None,
        preset: str = DEFAULT_PRESET,
        *,
        matrix: bool = True,
        **options: Any,
    ) -> Explanation:
        """Answer for a target by a method, with the rows of all tokens for pages to look into."""
        places = self._places_in(options)
        name = get_method(method or self.pipeline.usual).name
        ask = Ask(name, preset, {"matrix": matrix, **options})
        return self._explain(target, ask, **places)

    def compare(
        self,
        target: Target = None,
        methods: Iterable[str] | None = None,
        preset: str = DEFAULT_PRESET,
        *,
        matrix: bool = True,
        **options: Any,
    ) -> list[Explanation]:
        """One explanation a method; those that look at no target get none."""
        chosen = [get_method(name) for name in methods or default_methods()]
        places, options = self._places_in(options), {"matrix": matrix, **options}
        targets = [target if self.looks_at_target(method) else None for method in chosen]
        return [
            self._explain(asked, Ask(method.name, preset, options), **places)
            for asked, method in zip(targets, chosen, strict=True)
        ]

    def _places_in(self, options: dict[str, Any]) -> dict[str, Any]:
        """What says where the model is asked, taken out of a question's options."""
        known = inspect.signature(self._explain).parameters
        return {name: options.pop(name) for name in list(options) if name in known}

    @property
    def units(self) -> list[list[int]]:
        """The tokens of every patch, row by row, or word that ``without`` can take away, if any."""
        return []

    def without(self, units: Iterable[int]) -> Tensor:
        """The logits, (1, classes), without some patches or words, by their numbers in ``units``.

        What ``occlusion`` does to a single token: their pixels or embeddings are zero, in the
        model's own units; their places stay.
        """
        known, erased = self.units, set(units)
        if not known:
            raise ModelError(
                f"{type(self).__name__} has no patches or words that can be taken away; "
                "image and text classifiers have, one input at a time"
            )
        beyond = [unit for unit in sorted(erased) if not 0 <= unit < len(known)]
        if beyond:
            raise InputError(
                f"unit {beyond[0]} of an input with {len(known)} patches or words; count from 0"
            )
        return self._without([token for unit in erased for token in known[unit]])

    def _without(self, tokens: Sequence[int]) -> Tensor:
        raise NotImplementedError

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.logits.shape)
        return f"{type(self).__name__}({self.pipeline.name!r}, logits {shape})"

    def looks_at_target(self, method: Method) -> bool:
        """Whether a method's answer depends on the target."""
        return method.class_specific

    @abstractmethod
    def _explain(self, target: Any, ask: Ask) -> Explanation:
        """Answer; models that answer at many places take the place by its name as well."""


class RecordedInput(Recorded):
    """An input that one forward has read.

    ``notes`` are what was decided when it was read; they stand before those of an explanation.
    ``show`` makes an explanation one that people can look at, and keeps ``held`` bytes for it.
    ``logits`` are those that are asked about, where these are not all of the recording's.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        recording: Recording,
        notes: Sequence[str] = (),
        show: Show = lambda found: found,
        *,
        held: int = 0,
        logits: Tensor | None = None,
        labels: list[str] | None = None,
    ) -> None:
        super().__init__(pipeline, recording.logits if logits is None else logits, labels)
        self._recording, self._show, self._held = recording, show, held
        self._notes = tuple(dict.fromkeys(notes))

    @property
    def bytes(self) -> int:
        return self._recording.bytes + self._held

    def _explain(self, target: Any, ask: Ask) -> Explanation:
        return self._shown(ask(self._recording, target))

    def _shown(self, explanation: Explanation) -> Explanation:
        shown = self._show(explanation)
        return replace(shown, notes=(*self._notes, *shown.notes))

    def _without(self, tokens: Sequence[int]) -> Tensor:
        gone = torch.zeros_like(self._recording.tokens.content)
        gone[:, tokens] = True
        return output_without(self._recording, gone)
