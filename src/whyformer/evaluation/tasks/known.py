"""Benchmarks on samples whose truth is known: what decides the right answer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Protocol

from tqdm.auto import tqdm

from whyformer.errors import InputError
from whyformer.evaluation.data.samples import Samples
from whyformer.evaluation.tasks.task import Task
from whyformer.methods import default_methods
from whyformer.models.pipeline import Pipeline

#: how many embedded samples are evaluated unless told otherwise
COUNT = 100
#: why samples are left out
WRONG = "the model gets them wrong"


class Knowing(Protocol):
    """A benchmark that can tell whether a model gets a sample right, and names one that does."""

    model: ClassVar[str]
    unknown: ClassVar[str]

    def knows(self, why: Pipeline, sample: Any) -> bool: ...


class KnownTruth(Task):
    """Embedded samples, of which those count that the model gets right: where it is wrong, nobody
    knows what it looked at."""

    #: such a model, in words, and the embedded one
    needs: ClassVar[str]
    model: ClassVar[str]
    unknown: ClassVar[str] = WRONG

    @abstractmethod
    def embedded(self, count: int) -> Samples[Any]: ...

    @abstractmethod
    def knows(self, why: Pipeline, sample: Any) -> bool:
        """Whether the model gets the sample right."""

    def usual_methods(self) -> list[str]:
        """Beside the others the plain gradient, which everybody has at hand."""
        return [*default_methods(), "gradient_x_input"]


class Known(Samples[Any]):
    """The samples that the model gets right."""

    def __init__(
        self, task: Knowing, why: Pipeline, samples: Samples[Any], progress: bool = False
    ) -> None:
        places = tqdm(range(len(samples)), "choosing samples", unit="sample", disable=not progress)
        self._samples = samples
        self._places = [i for i in places if task.knows(why, samples[i])]
        wrong = len(samples) - len(self._places)
        if not self._places:
            raise InputError(
                f"{why.name} gets none of {wrong} {samples.name} right, so nothing is known of "
                f"what it looks at; try {task.model}"
            )
        self.name, self.stamp = samples.name, samples.stamp
        self.keys = [samples.keys[i] for i in self._places]
        left = f"left out, because {task.unknown}: {wrong} of {len(samples)}"
        self.notes = (*samples.notes, left) if wrong else samples.notes

    def __getitem__(self, index: int) -> Any:
        return self._samples[self._places[index]]
