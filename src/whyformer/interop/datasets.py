"""whyformer's answers as columns of a Hugging Face data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

import whyformer
from whyformer.engine.rules import DEFAULT_PRESET, get_preset
from whyformer.errors import InputError, ModelError
from whyformer.explanation import Explanation
from whyformer.methods import DEFAULT_METHOD, get_method
from whyformer.models.pipeline import Pipeline
from whyformer.provenance import digest_of
from whyformer.targets import class_index

#: images that go through the model together; texts, of many lengths, go one by one
IMAGES_AT_ONCE = 8


class Explained:
    """A function for ``Dataset.map(batched=True)`` that adds what the model said, and why.

    New columns, each behind ``prefix``: "prediction" and "target" (labels, or indices where the
    model has none), and "relevance": of a text's "words", a column too, or of an image's patches,
    row by row. ``targets`` names a column of classes; where it is missing or None, the predicted
    class is explained.

    The function is known by the model's weights and preprocessing, the method's code and the
    settings, so that ``map`` finds again what it computed before. In other processes (``num_proc``)
    the model is loaded by its name.
    """

    def __init__(
        self,
        why: Pipeline,
        column: str,
        *,
        targets: str | None = None,
        method: str = DEFAULT_METHOD,
        preset: str = DEFAULT_PRESET,
        prefix: str = "",
        **options: Any,
    ) -> None:
        get_preset(preset)
        self._why: Pipeline | None = why
        self.name, self.column, self.targets = why.source, column, targets
        self.method, self.preset, self.prefix, self.options = method, preset, prefix, options
        self._specific = get_method(method).class_specific
        self._model = identity(why)

    @property
    def why(self) -> Pipeline:
        """The model; in another process it is loaded on first use."""
        if self._why is None:
            self._why = whyformer.load(self.name, offline=True)
            if identity(self._why) != self._model:
                raise ModelError(
                    f"{self.name} in another process is not the model that was given: its "
                    "weights, preprocessing or options differ; map with num_proc=None"
                )
        return self._why

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        for name in filter(None, (self.column, self.targets)):
            if name not in batch:
                raise InputError(f"the data set has no column {name!r}; it has {sorted(batch)}")
        inputs = list(batch[self.column])
        asked = list(batch[self.targets]) if self.targets else [None] * len(inputs)
        at_once = IMAGES_AT_ONCE if self.why.kind == "image" else 1
        columns: dict[str, list[Any]] = {}
        for first in range(0, len(inputs), at_once):
            few = slice(first, first + at_once)
            for name, values in self._explain(inputs[few], asked[few]).items():
                columns.setdefault(self.prefix + name, []).extend(values)
        return columns

    def _explain(self, inputs: list[Any], asked: list[Any]) -> dict[str, list[Any]]:
        recorded = self.why.record(inputs)
        predicted = recorded.logits.argmax(-1).tolist()
        classes, labels = recorded.logits.shape[-1], self.why.labels
        target = [
            guess if item is None else class_index(item, classes, labels)
            for item, guess in zip(asked, predicted, strict=True)
        ]
        explanation = recorded.explain(
            torch.tensor(target) if self._specific else None,
            self.method,
            self.preset,
            matrix=False,
            **self.options,
        )
        return {
            "prediction": [self._named(i) for i in predicted],
            "target": [self._named(i) if self._specific else None for i in target],
            **relevance_of(explanation),
        }

    def _named(self, index: int) -> int | str:
        return self.why.labels[index] if self.why.labels else index

    def __getstate__(self) -> dict[str, Any]:
        """What tells this function from others, and makes it again: all but the model itself."""
        code = f"{whyformer.__version__} {digest_of(self.method)}"
        return {**vars(self), "_why": None, "code": code}


def relevance_of(explanation: Explanation) -> dict[str, list[Any]]:
    if explanation.grid is not None:
        return {"relevance": explanation.tokens.to_map(explanation.relevance).tolist()}
    words = explanation.words()
    return {
        "words": [[word for word, _ in sample] for sample in words],
        "relevance": [[score for _, score in sample] for sample in words],
    }


def identity(why: Pipeline) -> str:
    return f"{why.weights} {why.preparation}"
