"""What explanations cost on this machine: forwards, samples a second and memory, by method."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from whyformer.engine.inputs import as_call
from whyformer.errors import InputError
from whyformer.evaluation.run.timing import Clock
from whyformer.methods import get_method
from whyformer.models.images import ImagePipeline
from whyformer.models.language import LanguagePipeline
from whyformer.models.pipeline import Pipeline
from whyformer.models.texts import TextPipeline

SENTENCE = "The plot is thin, but the cast is warm and the ending made me smile. "


@dataclass(frozen=True)
class Cost:
    """A method's cost: its time in forwards, samples a second, and the memory at its peak."""

    method: str
    forwards: float
    samples_per_second: float
    peak_mib: float
    forward_seconds: float


def example(why: Pipeline, batch: int, tokens: int) -> Any:
    """Noise for a model that reads images, sentences of so many pieces for one that reads text.

    A language model is asked about what follows the last piece, and computes no other row.
    """
    if isinstance(why, ImagePipeline):
        noise = torch.rand(batch, 3, *why.input_size, generator=torch.Generator().manual_seed(0))
        return why.explainer.place(why.normalise(noise))
    if isinstance(why, LanguagePipeline):
        pieces = why.read(SENTENCE).ids.repeat(batch, tokens)
        pieces = pieces[:, : min(tokens, why.longest or tokens)]
        return why.explainer.place({"input_ids": pieces, **why.only_rows([pieces.shape[1] - 1])})
    if not isinstance(why, TextPipeline):
        raise InputError(
            f"{why.name} is a {why.kind} model; bench times models that classify images or texts, "
            "and language models"
        )
    inputs = why.batches(SENTENCE * tokens)[0]
    length = min(tokens, why.longest)
    return why.explainer.place({k: v[:1, :length].repeat(batch, 1) for k, v in inputs.items()})


def costs(
    why: Pipeline,
    methods: Sequence[str],
    inputs: Any,
    *,
    turns: int = 5,
    preset: str = "stable",
    precision: str = "full",
) -> Iterator[Cost]:
    """One method after the other; forward and explanation take turns, medians are compared."""
    args, kwargs = as_call(inputs)
    samples = len(inputs if isinstance(inputs, Tensor) else next(iter(inputs.values())))
    clock = Clock(next(why.model.parameters()).device)

    def forward() -> Any:
        with torch.no_grad():
            return why.model(*args, **kwargs)

    for name in methods:
        quiet = get_method(name).progress(False)

        def explain(name: str = name, quiet: dict[str, Any] = quiet) -> Any:
            return why.explainer(inputs, None, name, preset, precision=precision, **quiet)

        forward(), explain()
        seconds = [(clock.time(forward)[1], clock.time(explain)[1]) for _ in range(turns)]
        plain, explained = (median(each) for each in zip(*seconds, strict=True))
        mib = peak(explain) / 2**20
        yield Cost(name, explained / plain, samples / explained, mib, plain)


def peak(work: Callable[[], Any]) -> int:
    """The bytes of tensors that some work holds at most, beside those that were there before."""
    with Held() as held:
        work()
    return held.most


class Held(TorchDispatchMode):
    """How many bytes the tensors made under it hold now, and the most that they held."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._made: dict[int, weakref.ref[Any]] = {}
        self._before: dict[int, Any] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for storage in storages((args, kwargs)):
            if id(storage) not in self._made:
                self._before[id(storage)] = storage
        result = func(*args, **(kwargs or {}))
        for storage in storages(result):
            if id(storage) not in self._made and id(storage) not in self._before:
                self._hold(storage)
        return result

    def _hold(self, storage: Any) -> None:
        key, size = id(storage), storage.nbytes()

        def released(_: Any) -> None:
            self.now -= size
            del self._made[key]

        self._made[key] = weakref.ref(storage, released)
        self.now += size
        self.most = max(self.most, self.now)


def storages(values: Any) -> Iterator[Any]:
    return (leaf.untyped_storage() for leaf in tree_leaves(values) if isinstance(leaf, Tensor))
