"""Which method explains a model best: the paper's benchmarks and their measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.errors import InputError, UnknownNameError, nearest
from whyformer.evaluation.documents import open_documents
from whyformer.evaluation.images import Perturbation, Pointing, Segmentation
from whyformer.evaluation.rationales import CUTS, Rationales
from whyformer.evaluation.runner import processes, run
from whyformer.evaluation.samples import Samples, Some, open_images
from whyformer.evaluation.tables import Table, save_results
from whyformer.evaluation.task import Record, Task
from whyformer.explainer import DEFAULT_PRESET, get_preset
from whyformer.methods import get_method
from whyformer.models.pipeline import Pipeline, default_methods

__all__ = ["BENCHMARKS", "Result", "evaluate"]

BENCHMARKS: dict[str, type[Task]] = {
    task.name: task for task in (Perturbation, Segmentation, Rationales, Pointing)
}


@dataclass(frozen=True)
class Result:
    """A benchmark's table, and the records that it was made from."""

    summary: str
    table: Table
    records: list[Record]


def evaluate(
    benchmark: str,
    why: Pipeline,
    data: str | Path | Samples[Any] | None = None,
    *,
    methods: Sequence[str] | None = None,
    preset: str = DEFAULT_PRESET,
    limit: int | None = None,
    split: str = "test",
    cut: str = "head",
    out: str | Path,
    progress: bool = True,
) -> Result | None:
    """Run a benchmark and write its tables; under ``torchrun`` the first process returns them.

    ``benchmark``: "perturbation", "segmentation", "rationales" or "pointing". ``data``: a folder,
    samples of your own, or None for the embedded scenes and reviews. ``split`` and ``cut`` go with
    rationales: which part of an ERASER directory, and what is read of a long document ("head",
    "tail", "windows"). ``out`` keeps the run, which can be resumed.
    """
    if benchmark not in BENCHMARKS:
        raise UnknownNameError(f"unknown benchmark {benchmark!r}; {nearest(benchmark, BENCHMARKS)}")
    if cut not in CUTS:
        raise UnknownNameError(f"unknown cut {cut!r}; {nearest(cut, CUTS)}")
    get_preset(preset)
    wanted = "text" if benchmark == Rationales.name else "image"
    if why.kind != wanted:
        raise InputError(f"{benchmark} needs {wanted}s, and {why.name} reads {why.kind}s")
    chosen = tuple(get_method(name).name for name in methods or default_methods())
    options = {"cut": cut} if benchmark == Rationales.name else {}
    task = BENCHMARKS[benchmark](chosen, preset, **options)
    place = None if data is None or isinstance(data, Samples) else str(data)
    if isinstance(data, Samples):
        samples = data if limit is None else Some(data, limit)
    elif isinstance(task, Rationales):
        samples = open_documents(place, split, why.labels, limit)
    else:
        digits = 2 if isinstance(task, Pointing) else 1
        samples = open_images(place, digits, why.labels, limit)
    if not len(samples):
        raise InputError(f"{samples.name} holds no samples")
    folder = Path(out)
    records = run(task, why, samples, folder, progress=progress)
    if processes()[0] != 0:
        return None
    return summarise(task, why.name, samples.name, records, folder)


def summarise(task: Task, model: str, data: str, records: list[Record], folder: Path) -> Result:
    good = [record for record in records if "error" not in record]
    bad = [record["error"] for record in records if "error" in record]
    if not good:
        raise InputError(f"no sample could be measured; the first: {bad[0]}")
    summary = f"{task.name}: {model} on {data}, {len(good)} samples, preset {task.preset}"
    if bad:
        summary += f"; {len(bad)} could not be measured (the first: {bad[0]})"
    table = Table(task.name, task.figures(good))
    counts = {"samples": len(good), "failed": len(bad)}
    save_results(table, {"model": model, "data": data, **task.settings, **counts}, folder)
    return Result(summary, table, records)
