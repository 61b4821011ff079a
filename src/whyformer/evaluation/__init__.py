"""Which method explains a model best: the paper's benchmarks and their measures."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from whyformer.data_sets import HUB
from whyformer.engine.rules import DEFAULT_PRESET, get_preset
from whyformer.errors import InputError, UnknownNameError, nearest
from whyformer.evaluation.data.documents import open_documents
from whyformer.evaluation.data.mosaics import CONFIDENCE, Mosaics
from whyformer.evaluation.data.samples import Samples, Subset, open_images
from whyformer.evaluation.report.published import published
from whyformer.evaluation.report.report import save_report
from whyformer.evaluation.report.results import Result, make_result
from whyformer.evaluation.run import runner
from whyformer.evaluation.run.runner import read_records
from whyformer.evaluation.tasks.boxes import Boxes
from whyformer.evaluation.tasks.captions import Captions
from whyformer.evaluation.tasks.erasure import REMOVALS, Erasure
from whyformer.evaluation.tasks.grid import Grid
from whyformer.evaluation.tasks.known import COUNT, Known, KnownTruth
from whyformer.evaluation.tasks.perturbation import Perturbation
from whyformer.evaluation.tasks.pictures import GRAINS, PIXELS
from whyformer.evaluation.tasks.pointing import Pointing
from whyformer.evaluation.tasks.rationales import COUNTS, Rationales, eraser_lines
from whyformer.evaluation.tasks.saco import Saco
from whyformer.evaluation.tasks.sanity import Sanity
from whyformer.evaluation.tasks.segmentation import Segmentation
from whyformer.evaluation.tasks.task import Task
from whyformer.evaluation.tasks.texts import CUTS
from whyformer.evaluation.tasks.writing import Writing
from whyformer.explanation import SINGLE_LABEL
from whyformer.files import write_whole
from whyformer.methods import get_method
from whyformer.methods.variants import SEPARATOR
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import Pipeline
from whyformer.models.texts import TextPipeline
from whyformer.provenance import digest_of
from whyformer.sharing import processes

__all__ = ["BENCHMARKS", "Result", "evaluate", "save_report"]

BENCHMARKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
        Perturbation,
        Segmentation,
        Rationales,
        Pointing,
        Grid,
        Saco,
        Sanity,
        Erasure,
        Writing,
        Boxes,
        Captions,
    )
}

#: what some benchmarks let one choose, the usual first
OPTIONS: dict[str, Collection[str]] = {"cut": CUTS, "removal": REMOVALS, "grain": GRAINS}


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
    longest: int | None = None,
    removal: str = "mask",
    grain: str = PIXELS,
    confidence: float = CONFIDENCE,
    known: bool = False,
    out: str | Path,
    cache: str | Path | None = None,
    progress: bool = True,
) -> Result | None:
    """Run a benchmark and write its report; under ``torchrun`` the first process returns it.

    ``benchmark``: "perturbation", "segmentation", "pointing", "grid", "saco" or "sanity" for
    images, "rationales" or "erasure" for texts, "writing" for language models, "boxes" for
    detectors and "captions" for two towers, on samples whose truth is known. ``data``: a folder or
    file, samples of your own, or None for the embedded ones; ``limit`` takes evenly chosen samples,
    or so many grids, whose photos the model must recognise with a probability of ``confidence``.
    ``grain`` ("pixels", "patches") takes methods that reach the pixels there, or by the sums of
    their patches as all others. ``known`` lets pointing leave out the samples whose objects are not
    the model's surest classes. ``split`` is a part of an ERASER directory or a Hugging Face data
    set. For texts: ``cut`` is what is read of a long document ("head", "tail", "windows"),
    ``longest`` reads fewer word pieces than the model could, and ``removal`` ("mask", "delete") is
    how erasure takes words away.
    ``out`` keeps the run, which can be resumed, also with more methods; ``cache`` keeps the maps
    for other runs. A method may have options: "generic_attention:gradient=libra".
    """
    task = make_task(benchmark, preset, cut=cut, removal=removal, grain=grain)
    if known and not isinstance(task, KnownTruth | Pointing):
        raise InputError(f"known chooses samples for pointing, and the benchmark is {benchmark}")
    if confidence != CONFIDENCE and not isinstance(task, Grid):
        raise InputError(f"confidence chooses photos for grids, and the benchmark is {benchmark}")
    if why.kind != task.kind:
        needs = task.needs if isinstance(task, KnownTruth) else f"{task.kind}s"
        given = f"reads {why.kind}s" if why.kind == why.takes else f"is made for {why.kind}"
        raise InputError(f"{benchmark} needs {needs}, and {why.name} {given}")
    if why.explainer.problem != SINGLE_LABEL and not isinstance(task, KnownTruth):
        raise InputError(
            f"{why.name} is a model for {why.explainer.problem.replace('_', ' ')}; the benchmarks "
            "are made for models that choose one of several classes"
        )
    if longest is not None:
        why = shorter(why, longest)
    named = [methods] if isinstance(methods, str) else methods
    chosen = list(dict.fromkeys(get_method(name).name for name in named or task.usual_methods()))
    alone = progress and processes()[0] == 0
    if isinstance(task, Grid):
        photos = open_samples(task, why, data, split, None)
        assert isinstance(why, ImagePipeline)
        samples: Samples[Any] = Mosaics(why, photos, limit, confidence, alone)
    else:
        samples = open_samples(task, why, data, split, limit)
    if isinstance(task, KnownTruth) or (known and isinstance(task, Pointing)):
        samples = Known(task, why, samples, alone)
    folder = Path(out)
    settings = runner.run(
        task,
        why,
        samples,
        chosen,
        folder,
        place=place_of(data),
        cache=None if cache is None else Path(cache),
        progress=progress,
    )
    if processes()[0] != 0:
        return None
    hidden = ("benchmark", "protocol", "whyformer", "place", "preparation", "fingerprint")
    facts = {key: value for key, value in settings.items() if key not in hidden}
    facts["model"] = why.name
    if samples.notes:
        facts["notes"] = "; ".join(samples.notes)
    measures = task.measures()
    records = read_records(folder)
    result = make_result(benchmark, measures, chosen, samples.keys, records, facts)
    if grain == PIXELS:  # the paper's own
        result = replace(result, published=published(benchmark, why, samples, measures))
    save_report([result], folder)
    if isinstance(task, Rationales):
        save_rationales(chosen, samples.keys, folder)
    return result


def make_task(benchmark: str, preset: str, **options: str) -> Task:
    """An option that a benchmark does not have may only be left at its first, usual value."""
    for kind, name in (("benchmark", benchmark), *options.items()):
        known = BENCHMARKS if kind == "benchmark" else OPTIONS[kind]
        if name not in known:
            raise UnknownNameError(f"unknown {kind} {name!r}; {nearest(name, known)}")
    get_preset(preset)
    task = BENCHMARKS[benchmark]
    own = {field.name for field in fields(task)}
    for option, value in options.items():
        if option not in own and value != next(iter(OPTIONS[option])):
            raise InputError(f"{option} {value!r} was given, and {benchmark} has no {option}")
    return task(preset, **{option: value for option, value in options.items() if option in own})


def open_samples(
    task: Task,
    why: Pipeline,
    data: str | Path | Samples[Any] | None,
    split: str,
    limit: int | None,
) -> Samples[Any]:
    if isinstance(data, Samples):
        samples = data if limit is None else Subset(data, limit)
    elif isinstance(task, KnownTruth):
        if data is not None:
            raise InputError(
                f"{task.name} reads samples whose truth is known, and no {data}; leave the data out"
            )
        samples = task.embedded(limit or COUNT)
    elif task.kind == "text":
        samples = open_documents(None if data is None else str(data), split, why.labels, limit)
    else:
        digits = 2 if isinstance(task, Pointing) else 1
        place = None if data is None else str(data)
        samples = open_images(place, digits, why.labels, limit, split=split)
    if not len(samples):
        raise InputError(f"{samples.name} holds no samples")
    return samples


def place_of(data: str | Path | Samples[Any] | None) -> str:
    """Where the data lie: folders of one name may hold other files of the same names."""
    if data is None or isinstance(data, Samples) or str(data).startswith(HUB):
        return str(data) if isinstance(data, str) else ""
    return str(Path(data).resolve())


def shorter(why: Pipeline, longest: int) -> Pipeline:
    if not isinstance(why, TextPipeline):
        raise InputError(f"longest counts word pieces, and {why.name} reads {why.kind}s")
    return why.reading(longest)


def save_rationales(methods: Sequence[str], keys: Sequence[str], folder: Path) -> None:
    """Each method's rationales of each length, in the format of ERASER's own scorer."""
    for method in methods:
        code = digest_of(method)
        found = {
            record["key"]: record
            for record in read_records(folder)
            if (record["method"], record["code"]) == (method, code) and "error" not in record
        }
        ordered = [found[key] for key in keys if key in found]
        for count in COUNTS:
            lines = "".join(json.dumps(line) + "\n" for line in eraser_lines(ordered, count))
            place = folder / "rationales" / method.replace(SEPARATOR, "-")
            write_whole(place / f"{count}.jsonl", lines)
