"""A model with its preprocessing: what ``whyformer.load`` returns."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from whyformer.engine.rules import DEFAULT_PRESET, get_preset
from whyformer.errors import ModelError, TargetError, first_line
from whyformer.explainer import Explainer
from whyformer.methods import DEFAULT_METHOD, get_method
from whyformer.models.vocabulary import tokenizer_settings

if TYPE_CHECKING:
    from whyformer.explanation import Explanation
    from whyformer.models.recorded import Recorded
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


def move(model: nn.Module, device: str | None) -> None:
    if device is None:
        return
    try:
        model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {device!r} cannot be used: {first_line(error)}") from error
