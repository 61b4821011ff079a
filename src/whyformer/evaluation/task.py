"""What a benchmark is: a measure of one sample, and the figures of all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from whyformer.evaluation.estimates import Estimate
from whyformer.methods import get_method
from whyformer.models.pipeline import Pipeline

Record = dict[str, Any]
Figures = dict[str, dict[str, Estimate]]


@dataclass(frozen=True)
class Task(ABC):
    """A benchmark of methods under a preset."""

    methods: tuple[str, ...]
    preset: str

    name: ClassVar[str]

    @abstractmethod
    def measure(self, why: Pipeline, sample: Any) -> Record:
        """Everything that the figures need of one sample: numbers and lists, by method."""

    @abstractmethod
    def figures(self, records: Sequence[Record]) -> Figures:
        """By method and setting, from all records."""

    @property
    def settings(self) -> Record:
        return {"task": self.name, **asdict(self)}

    def _options(self, method: str) -> dict[str, bool]:
        """Only the map is wanted, and no progress bar of the method's own."""
        quiet = {"progress": False} if "progress" in get_method(method).options else {}
        return {"matrix": False, **quiet}
