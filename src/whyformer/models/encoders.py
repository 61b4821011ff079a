"""Models without a head: why are two inputs similar, and what does one unit see?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from whyformer.engine.outputs import as_output
from whyformer.errors import InputError, ModelError, TargetError
from whyformer.explainer import Explainer
from whyformer.explanation import REGRESSION, Explanation
from whyformer.methods import get_method
from whyformer.models.hugging_face import (
    is_prepared,
    load_processor,
    longest_text,
    prepared_by,
)
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline
from whyformer.models.reading import TextReader
from whyformer.models.recorded import Ask, Recorded, RecordedInput
from whyformer.models.sentence_layout import read_layout
from whyformer.models.similarity import (
    OTHER,
    Features,
    Pool,
    Similarity,
    beside,
    first_token,
    pooled,
)
from whyformer.models.vocabulary import load_tokenizer
from whyformer.recording import Recording

SIMILAR = "similar"


class Prepared(NamedTuple):
    """An input as the model reads it, and as people see it: the arguments of ``showing``."""

    inputs: dict[str, Tensor]
    shown: dict[str, Any]


class EncoderPipeline(Pipeline):
    """A model without a head.

    Two inputs are asked about by their similarity, the cosine of their features; one input by one
    unit of its features: ``target=17``. ``reader`` prepares images (DINOv2, ViT), or sentences, of
    which two to compare may also come as a tuple.
    """

    kind = "encoder"
    beside = ("similar_to",)

    def __init__(
        self,
        name: str,
        explainer: Explainer,
        reader: ImagePipeline | TextReader,
        pool: Pool,
        notes: Sequence[str],
    ) -> None:
        super().__init__(name, explainer)
        self._reader, self.takes, self._notes = reader, reader.takes, tuple(notes)
        self._features = Features(explainer.model, pool)

    @property
    def reads(self) -> dict[str, Any]:
        return self._reader.reads

    def _prepared_example(self) -> bytes:
        return self._reader._prepared_example()

    @property
    def labels(self) -> None:
        return None

    def record(self, inputs: Any, *, progress: bool = False, similar_to: Any = None) -> Recorded:
        """Read one input, or two to compare, in one forward of both."""
        notes = list(self._notes)
        if similar_to is None and self.takes == "text" and isinstance(inputs, tuple):
            if len(inputs) != 2:
                raise InputError(f"{len(inputs)} texts were given; give two to compare, as a tuple")
            inputs, similar_to = inputs
        first = self.prepare(inputs, notes)
        shown = {self._main: {**first.shown, "title": self.takes}}
        if similar_to is None:
            recording = self._explainer(self._features).record(first.inputs)
            return RecordedFeatures(self, recording, shown, notes)
        second = self.prepare(similar_to, notes)
        counts = len(first.inputs[self._main]), len(second.inputs[self._main])
        if counts[0] != counts[1]:
            raise InputError(
                f"{counts[0]} {self.takes}s are compared with {counts[1]}; give as many to each"
            )
        shown[OTHER + self._main] = {**second.shown, "title": f"other {self.takes}"}
        explainer = self._explainer(Similarity(self._features), [SIMILAR])
        recording = explainer.record(beside(first.inputs, second.inputs))
        return RecordedFeatures(self, recording, shown, notes)

    def prepare(self, given: Any, notes: list[str]) -> Prepared:
        """From what people have to what the model reads."""
        if isinstance(self._reader, ImagePipeline):
            pixels, shown = self._reader.pixels(given, notes)
            return Prepared({"pixel_values": pixels}, shown)
        read = self._reader.read([given])
        notes += read.notes
        return Prepared(read.inputs, {"pieces": read.pieces})

    @property
    def _main(self) -> str:
        return "pixel_values" if self.takes == "image" else "input_ids"

    def _explainer(self, model: Any, labels: list[str] | None = None) -> Explainer:
        explainer = Explainer(model, labels=labels, grid=self.explainer.grid)
        explainer.problem = REGRESSION
        return explainer


class RecordedFeatures(RecordedInput):
    """One input or two that a model without a head has read.

    Its labels are the similarity's name, or the units' names.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        recording: Recording,
        shown: Mapping[str, dict[str, Any]],
        notes: Sequence[str],
    ) -> None:
        def show(found: Explanation) -> Explanation:
            for name, how in shown.items():
                found = found.showing(name, **how)
            return replace(found, labels=labels, one_scale=False)

        labels = recording.labels or [f"unit {i}" for i in range(recording.logits.shape[-1])]
        super().__init__(pipeline, recording, notes, show, labels=labels)
        self._alone = len(shown) == 1

    def _explain(self, target: Any, ask: Ask) -> Explanation:
        if target is None and self._alone and get_method(ask.method).class_specific:
            raise TargetError(
                f"{self.pipeline.name} has no head, and so no prediction to ask about; give "
                f"similar_to=..., or target=17 for one of its {self.logits.shape[-1]} units"
            )
        if isinstance(target, str):
            target = self.index_of(target)
        return super()._explain(target, ask)


def encoder_pipeline(folder: Path, name: str, explainer: Explainer) -> EncoderPipeline:
    model: Any = explainer.model
    main = getattr(model, "main_input_name", "")
    several = main == "input_ids" and is_prepared(folder)
    if getattr(model.config, "is_encoder_decoder", False) or several:
        raise ModelError(
            f"{name} is {type(model).__name__}, which reads several inputs and has no head that "
            "answers; use whyformer.Explainer(model)"
        )
    if main == "pixel_values":
        images = prepared_by(load_processor(folder, name), name, explainer)
        return EncoderPipeline(name, explainer, images, *image_pooling(explainer))
    if main != "input_ids":
        raise ModelError(f"{name} reads {main or 'no known input'}; use whyformer.Explainer(model)")
    tokenizer = load_tokenizer(folder, name)
    layout = read_layout(folder, name)
    longest = min(longest_text(model, tokenizer), layout.longest or 10**9)
    reader = TextReader(tokenizer, longest)
    if explainer.output is not None:
        return EncoderPipeline(name, explainer, reader, given_pooling(explainer), [])
    return EncoderPipeline(name, explainer, reader, layout.pool, layout.notes)


def image_pooling(explainer: Explainer) -> tuple[Pool, list[str]]:
    """What is a model's own word on an image, and what that is called."""
    model: Any = explainer.model
    if explainer.output is not None:
        return given_pooling(explainer), []
    # Poolers with a dense layer were trained with a head that is not there, or not at all.
    if hasattr(getattr(model, "pooler", None), "dense") or not returns_pooled(model):
        return first_token, ["the features are the class token's, last_hidden_state[:, 0]"]
    return pooled, ["the features are the model's pooler_output"]


def returns_pooled(model: Any) -> bool:
    import inspect

    stated = inspect.signature(type(model).forward).return_annotation
    return "Pooling" in str(stated)


def given_pooling(explainer: Explainer) -> Pool:
    """``output=`` of the caller."""
    return lambda output, inputs: as_output(output, explainer.output)
