"""Run a benchmark: sample by sample, resumable, on one process or many.

A run is a folder. `settings.json` says what was asked; every process appends one line a sample to
a file of its own, `records-RANK.jsonl`. A killed run goes on where it was: finished samples are
never measured again, and half a line counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from whyformer import __version__
from whyformer.errors import InputError, OutputError
from whyformer.evaluation.samples import Samples
from whyformer.evaluation.task import Record, Task
from whyformer.files import what_is, write_whole
from whyformer.models.pipeline import Pipeline

SETTINGS = "settings.json"


def run(
    task: Task, why: Pipeline, samples: Samples[Any], folder: Path, *, progress: bool = True
) -> list[Record]:
    """Measure what is missing, and return all records in the order of the samples.

    Under ``torchrun`` every process takes its share of the samples. A sample that cannot be
    measured is recorded with the reason.
    """
    rank, size = processes()
    settings = {
        **task.settings,
        "whyformer": __version__,
        "model": why.name,
        "weights": fingerprint(why.model),
        "data": samples.name,
        "samples": samples.fingerprint,
    }
    if rank == 0:
        claim(folder, settings)
    wait()
    done = {key for key, record in read_records(folder).items() if "error" not in record}
    mine = [i for i in range(len(samples)) if i % size == rank and samples.keys[i] not in done]
    label = f"{task.name}" + (f" {rank + 1}/{size}" if size > 1 else "")
    with Appender(folder / f"records-{rank}.jsonl") as appender:
        for i in tqdm(mine, desc=label, unit="sample", disable=not progress):
            key = samples.keys[i]
            try:
                record = task.measure(why, samples[i])
            except InputError as error:
                record = {"error": str(error)}
            appender.add({"key": key, **record})
    wait()
    records = read_records(folder)
    return [records[key] for key in samples.keys]


def claim(folder: Path, settings: dict[str, Any]) -> None:
    """Mark the folder with the settings; results of other settings are never mixed in."""
    path = folder / SETTINGS
    text = json.dumps(settings, indent=1, sort_keys=True) + "\n"
    if what_is(path) is None:
        write_whole(path, text)
        return
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged; choose another folder") from error
    for key, value in json.loads(text).items():
        if before.get(key) != value:
            raise InputError(
                f"{folder} holds a run with another {key} ({before.get(key)!r}, now {value!r}); "
                "choose another folder"
            )


class Appender:
    """Adds whole lines to a file; what a killed process left of a line is cut off first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Appender:
        try:
            self._file = open(self.path, "ab+")
            self._file.seek(0)
            kept = self._file.read().rfind(b"\n") + 1
            self._file.truncate(kept)
            self._file.seek(kept)
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror}") from error
        return self

    def add(self, record: Record) -> None:
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise OutputError(
                f"cannot write {self.path}: {error.strerror}; the run can be resumed"
            ) from error

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_records(folder: Path) -> dict[str, Record]:
    """All whole lines of all processes, by key; what was measured counts before what failed."""
    found: dict[str, Record] = {}
    for record in (record for path in _shards(folder) for record in _lines(path)):
        if "error" not in record or record["key"] not in found:
            found[record["key"]] = record
    return found


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("records-*.jsonl"))


def _lines(path: Path) -> Iterator[Record]:
    data = path.read_bytes()
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        yield json.loads(line)


def fingerprint(model: torch.nn.Module) -> str:
    """The same for the same weights."""
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()[:16]


def processes() -> tuple[int, int]:
    """This process's rank and how many there are; joins the group that ``torchrun`` set up.

    Processes only wait for each other, so gloo serves on GPUs as well.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    return int(os.environ.get("RANK", "0")), size


def wait() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
