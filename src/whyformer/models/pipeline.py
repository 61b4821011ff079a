"""A model with its preprocessing: what ``whyformer.load`` returns."""

from __future__ import annotations

import hashlib
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from whyformer.engine.rules import DEFAULT_PRESET, get_preset
from whyformer.errors import InputError, ModelError, TargetError, first_line
from whyformer.explainer import Explainer
from whyformer.methods import DEFAULT_METHOD, Method, default_methods, get_method
from whyformer.models.vocabulary import tokenizer_settings
from whyformer.targets import class_index

if TYPE_CHECKING:
    from whyformer.explanation import Explanation
    from whyformer.targets import Target

#: parts of a configuration that say nothing about what the model computes
PASSING = ("transformers_version", "dtype", "torch_dtype")


class Pipeline(ABC):
    """Ask a model why, from files, pictures and sentences.

    Examples:
        >>> why = whyformer.load("demo-vision")
        >>> why("scene.png", target="3").save("why.png")
        PosixPath('why.png')
    """

    kind: ClassVar[str]
    #: what its main input may be: "image", "text", "sound" or "video"
    takes: str
    #: the method that answers where none is named
    usual: ClassVar[str] = DEFAULT_METHOD
    #: whether inputs can be read apart and go through the model together (``ImagePipeline.photo``)
    together: ClassVar[bool] = False
    #: what else belongs to an input, by its name in a call, such as an image's ``text``
    beside: ClassVar[tuple[str, ...]] = ()
    #: what of it must be there, and what is said where it is not
    needs: ClassVar[Mapping[str, str]] = {}

    def __init__(self, name: str, explainer: Explainer) -> None:
        #: what people are shown, and what ``whyformer.load`` was given
        self.name = self.source = name
        self.explainer = explainer

    @property
    def model(self) -> nn.Module:
        return self.explainer.model

    @property
    def labels(self) -> list[str] | None:
        """The classes' names by index."""
        return self.explainer.labels

    @property
    @abstractmethod
    def reads(self) -> dict[str, Any]:
        """How much the model reads at once, by name: what results should say beside their data."""

    @property
    def weights(self) -> str:
        """The same for the same weights."""
        digest = hashlib.sha256()
        for name, value in self.model.state_dict().items():
            digest.update(name.encode())
            digest.update(value.detach().cpu().float().numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def preparation(self) -> str:
        """The same for the same configuration, labels and preprocessing; weights apart."""
        config: Any = getattr(self.model, "config", None)
        stated = config.to_dict() if hasattr(config, "to_dict") else {}
        lasting = {k: v for k, v in stated.items() if k[0] != "_" and k not in PASSING}
        parts = [
            json.dumps(lasting, sort_keys=True, default=str),
            repr(self.model),
            repr(self.labels),
            self.explainer.problem,
            repr(self.reads),
        ]
        digest = hashlib.sha256("\n".join(parts).encode())
        digest.update(self._prepared_example())
        return digest.hexdigest()[:16]

    @abstractmethod
    def _prepared_example(self) -> bytes:
        """What the preprocessing makes of a fixed input, or all its settings."""

    @abstractmethod
    def record(self, inputs: Any, *, progress: bool = False) -> Recorded:
        """Run the forward once and keep it: further targets and methods cost no new one.

        ``progress`` shows a bar where the reading takes long. What ``beside`` names comes by name.
        """

    def __call__(
        self,
        inputs: Any,
        target: Target = None,
        method: str | None = None,
        preset: str = DEFAULT_PRESET,
        **options: Any,
    ) -> Explanation:
        """Explain an input for a class: index, label, list of them, function, None = predicted.

        Without a ``method`` the pipeline's ``usual`` one answers.
        """
        get_method(method or self.usual), get_preset(preset)
        recorded = self.record(inputs, **self._taken(options))
        return recorded.explain(target, method, preset, **options)

    def compare(
        self,
        inputs: Any,
        target: Target = None,
        methods: Iterable[str] | None = None,
        preset: str = DEFAULT_PRESET,
        **options: Any,
    ) -> list[Explanation]:
        """The same question answered by several methods; by default all that are not slow."""
        recorded = self.record(inputs, **self._taken(options))
        return recorded.compare(target, methods, preset, **options)

    def check_beside(self, given: Collection[str]) -> None:
        """Refuse a question that lacks what the model must have beside its input."""
        for name, sentence in self.needs.items():
            if name not in given:
                raise TargetError(f"{self.name} {sentence}")

    def _taken(self, options: dict[str, Any]) -> dict[str, Any]:
        """What belongs to the input, taken out of a call's options."""
        return {name: options.pop(name) for name in self.beside if name in options}

    def __repr__(self) -> str:
        count = len(self.labels) if self.labels else "unnamed"
        return f"{type(self).__name__}({self.name!r}, {count} classes)"


class TokenPipeline(Pipeline):
    """A model with a tokenizer; ``longest`` is the most pieces that it takes, if it has a limit."""

    tokenizer: Any
    longest: int | None

    @property
    def reads(self) -> dict[str, Any]:
        return {"longest": self.longest}

    def _prepared_example(self) -> bytes:
        return tokenizer_settings(self.tokenizer)


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
        chosen = method or self.pipeline.usual
        return self._explain(target, chosen, preset, matrix=matrix, **options)

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
        return [
            self._explain(
                target if self.looks_at_target(method) else None,
                method.name,
                preset,
                matrix=matrix,
                **options,
            )
            for method in chosen
        ]

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
    def _explain(self, target: Any, method: str, preset: str, **options: Any) -> Explanation: ...


def move(model: nn.Module, device: str | None) -> None:
    if device is None:
        return
    try:
        model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {device!r} cannot be used: {first_line(error)}") from error
