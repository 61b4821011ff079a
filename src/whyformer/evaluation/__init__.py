"""Which method explains a model best: the paper's benchmarks and their measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whyformer.errors import InputError, UnknownNameError, nearest
from whyformer.evaluation.runner import processes, run
from whyformer.evaluation.samples import Samples, open_images
from whyformer.evaluation.tables import Table, save_results
from whyformer.evaluation.tasks import TASKS, Record
from whyformer.explainer import DEFAULT_PRESET, get_preset
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline, default_methods

__all__ = ["Result", "evaluate"]


@dataclass(frozen=True)
class Result:
    """A benchmark's table, and the records that it was made from."""

    summary: str
    table: Table
    records: list[Record]


def evaluate(
    benchmark: str,
    why: Pipeline,
    data: str | Path | Samples | None = None,
    *,
    methods: Sequence[str] | None = None,
    preset: str = DEFAULT_PRESET,
    limit: int | None = None,
    out: str | Path,
    progress: bool = True,
) -> Result | None:
    """Run a benchmark and write its tables; under ``torchrun`` the first process returns them.

    ``benchmark``: "perturbation", "segmentation" or "pointing". ``data``: a folder, samples of your
    own, or None for the embedded scenes. ``out`` keeps the run, which can be resumed.
    """
    if benchmark not in TASKS:
        raise UnknownNameError(f"unknown benchmark {benchmark!r}; {nearest(benchmark, TASKS)}")
    get_preset(preset)
    if not isinstance(why, ImagePipeline):
        raise InputError(f"{benchmark} needs an image model, and {why.name} reads {why.kind}s")
    if isinstance(data, Samples):
        samples = data
    else:
        digits = 2 if benchmark == "pointing" else 1
        samples = open_images(None if data is None else str(data), digits, why.labels, limit)
    task = TASKS[benchmark](tuple(methods or default_methods()), preset)
    folder = Path(out)
    records = run(task, why, samples, folder, progress=progress)
    if processes()[0] != 0:
        return None
    good = [record for record in records if "error" not in record]
    if not good:
        raise InputError(f"no sample could be measured; the first: {records[0]['error']}")
    failed = len(records) - len(good)
    summary = f"{benchmark}: {why.name} on {samples.name}, {len(good)} samples, preset {preset}" + (
        f"; {failed} could not be measured ({next(r['error'] for r in records if 'error' in r)})"
        if failed
        else ""
    )
    table = Table(benchmark, task.figures(good))
    facts = {"model": why.name, "data": samples.name, "preset": preset}
    save_results(table, {**facts, "samples": len(good), "failed": failed}, folder)
    return Result(summary, table, records)
