"""What a benchmark is: a measure of one sample, and the figures of all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from whyformer.evaluation.run.cache import Cache
from whyformer.methods import default_methods
from whyformer.models.pipeline import Pipeline
from whyformer.provenance import rules_of

Record = dict[str, Any]

#: another number whenever the same samples would give other records
PROTOCOL = 2


def first(means: np.ndarray) -> np.ndarray:
    """The figure that is the mean of one number a sample."""
    return means[..., 0]


@dataclass(frozen=True)
class Measure:
    """One figure of a method: how to have it from the records, and where it is reported.

    ``numbers`` gives a sample's numbers, or None where the method has no such figure; ``figure``
    maps their means over the samples, (..., numbers), to a share. ``table`` heads the table that
    shows it as ``column``, by default the end of its path; None keeps it to `results.json`.
    """

    path: tuple[str, ...]
    numbers: Callable[[Record], Sequence[float] | None]
    figure: Callable[[np.ndarray], np.ndarray] = first
    table: str | None = None
    column: str = ""
    less_is_better: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", self.column or self.path[-1])


@dataclass(frozen=True)
class Task(ABC):
    """A benchmark under a preset."""

    preset: str

    name: ClassVar[str]
    #: what its models read
    kind: ClassVar[str]

    def usual_methods(self) -> list[str]:
        """Those that are measured unless told otherwise."""
        return default_methods()

    def prepare(self, why: Pipeline, sample: Any) -> Any:
        """What can be done to a sample while the model works on the one before.

        By another thread: tokenizers, which change while they work, are not to be used here.
        """
        return sample

    @abstractmethod
    def measure(
        self, why: Pipeline, prepared: Any, methods: Sequence[str], cache: Cache
    ) -> Iterator[tuple[str, Record]]:
        """Everything that the figures need of one sample, method by method."""

    @abstractmethod
    def measures(self) -> list[Measure]:
        """The figures that the records give."""

    @property
    def settings(self) -> Record:
        shown = {"benchmark": self.name, "protocol": PROTOCOL}
        return {**shown, **asdict(self), **rules_of(self.preset)}
