"""Benchmarks on samples whose truth is known: what decides the right answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from tqdm.auto import tqdm

from whyformer.code import code_of
from whyformer.errors import InputError
from whyformer.evaluation.data.samples import Samples
from whyformer.evaluation.run.timing import Clock
from whyformer.evaluation.tasks.task import Task
from whyformer.explanation import Explanation
from whyformer.methods import default_methods, get_method
from whyformer.models.pipeline import Pipeline, Recorded

#: how many embedded samples are evaluated unless told otherwise
COUNT = 100


class Knowing(Protocol):
    """A benchmark that can tell whether a model gets a sample right, and names one that does."""

    model: ClassVar[str]

    def knows(self, why: Pipeline, sample: Any) -> bool: ...


class KnownTruth(Task):
    """Embedded samples, of which those count that the model gets right: where it is wrong, nobody
    knows what it looked at."""

    #: such a model, in words, and the embedded one
    needs: ClassVar[str]
    model: ClassVar[str]

    @abstractmethod
    def embedded(self, count: int) -> Samples[Any]: ...

    @abstractmethod
    def knows(self, why: Pipeline, sample: Any) -> bool:
        """Whether the model gets the sample right."""

    def usual_methods(self) -> list[str]:
        """Beside the others the plain gradient, which everybody has at hand."""
        return [*default_methods(), "gradient_x_input"]


class Asking:
    """Questions about one input, each with a recording of its own, timed beside ``forward``."""

    def __init__(
        self,
        why: Pipeline,
        record: Callable[[], Recorded],
        preset: str,
        remember: Callable[[str, Callable[[], np.ndarray]], np.ndarray],
        forward: Callable[[], Any] | None = None,
    ) -> None:
        self._record, self._preset, self._remember = record, preset, remember
        self.clock = Clock(next(why.model.parameters()).device)
        if forward is not None:
            with torch.no_grad():
                _, self.clock.forward = self.clock.time(forward)

    def __call__(
        self, method: str, target: Any, read: Callable[[Explanation], np.ndarray]
    ) -> np.ndarray:
        """What is read from the method's explanation."""
        name = f"{method} {code_of(method)} {self._preset} {target}"
        return self._remember(name, lambda: read(self._explain(method, target)))

    def _explain(self, method: str, target: Any) -> Explanation:
        quiet = {"progress": False} if "progress" in get_method(method).options else {}
        answer, seconds = self.clock.time(
            lambda: self._record().explain(target, method, self._preset, matrix=False, **quiet)
        )
        self.clock.add(method, seconds)
        return answer


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
        left = f"left out, because the model gets them wrong: {wrong} of {len(samples)}"
        self.notes = (*samples.notes, left) if wrong else samples.notes

    def __getitem__(self, index: int) -> Any:
        return self._samples[self._places[index]]
