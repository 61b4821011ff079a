"""Run a benchmark: sample by sample, resumable, on one process or many.

A run is a folder. `settings.json` says what was asked; every process appends one line for each
sample and method to a file of its own, `records-RANK.jsonl`. A killed run goes on where it was:
what is finished is never measured again, half a line counts as none, and a method that comes later
is measured on the same samples beside the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from whyformer import __version__
from whyformer.errors import InputError, NumericalError, TargetError
from whyformer.evaluation.data.samples import Samples
from whyformer.evaluation.run.cache import Cache
from whyformer.evaluation.tasks.task import Record, Task
from whyformer.models.pipeline import Pipeline
from whyformer.overlapping import read_ahead
from whyformer.provenance import digest_of
from whyformer.run_folder import RunFolder
from whyformer.sharing import processes, wait

SETTINGS = "settings.json"
#: settings that maps kept for other runs depend on
CACHED_BY = ("weights", "preparation", "rules")

#: what is the sample's fault, or the method's on it; anything else stops the run
SAMPLE_ERRORS = (InputError, NumericalError, TargetError)

Pending = tuple[int, list[str]]


def run(
    task: Task,
    why: Pipeline,
    samples: Samples[Any],
    methods: Sequence[str],
    folder: Path,
    *,
    place: str = "",
    cache: Path | None = None,
    progress: bool = True,
) -> Record:
    """Measure what is missing, and return the run's settings; the records are in the folder.

    Under ``torchrun`` every process takes its share of the samples. A sample that cannot be
    measured is recorded with the reason, and tried again by the next start.
    """
    rank, size = processes()
    settings = {
        **task.settings,
        "whyformer": __version__,
        "model": why.source,
        "weights": why.weights,
        **why.reads,
        "preparation": why.preparation,
        "data": samples.name,
        "place": place,
        "fingerprint": samples.fingerprint,
    }
    marked = run_folder(folder)
    if rank == 0:
        marked.claim(settings)
    wait()
    marked.check(settings)
    done = {
        (record["key"], record["method"], record["code"])
        for record in read_records(folder)
        if "error" not in record
    }
    codes = {method: digest_of(method) for method in methods}
    mine = range(rank, len(samples), size)
    pending: list[Pending] = []
    for i in mine:
        missing = [m for m in methods if (samples.keys[i], m, codes[m]) not in done]
        if missing:
            pending.append((i, missing))
    kept = Cache(cache, " ".join(settings.get(key, "") for key in CACHED_BY).rstrip())
    wait()
    warm: set[str] = set()  # a process's first explanation by a method takes longer than others
    label = task.name + (f" 1/{size}" if size > 1 else "")
    with (
        marked.append(rank) as appender,
        tqdm(
            total=len(mine),
            initial=len(mine) - len(pending),
            desc=label,
            unit="sample",
            smoothing=0.05,
            disable=not progress or rank > 0,
        ) as bar,
        closing(read_ahead(pending, lambda each: task.prepare(why, samples[each[0]]))) as ready,
    ):
        for (i, missing), prepared in ready:
            for method, record in attempt(task, why, prepared, missing, kept):
                if method not in warm:
                    record.pop("forwards", None)
                    warm.add(method)
                appender.add(
                    {"key": samples.keys[i], "method": method, "code": codes[method], **record}
                )
            bar.update()
    wait()
    return settings


def attempt(
    task: Task,
    why: Pipeline,
    prepared: Future[Any],
    methods: Sequence[str],
    cache: Cache,
) -> Iterator[tuple[str, Record]]:
    """Each method's record; where a sample or a method fails, the reason is the record."""
    left = list(methods)
    while left:
        try:
            for method, record in task.measure(why, prepared.result(), list(left), cache):
                left.remove(method)
                yield method, record
        except SAMPLE_ERRORS as error:
            yield left.pop(0), {"error": str(error)}


def run_folder(folder: Path) -> RunFolder:
    return RunFolder(folder, SETTINGS, "records-{}.jsonl")


def read_records(folder: Path) -> Iterator[Record]:
    """All whole lines of all processes."""
    return (record for _, _, record in run_folder(folder).read("key", "method", "code"))
