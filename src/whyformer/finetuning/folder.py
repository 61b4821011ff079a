"""A run's folder: nothing else is touched in it, and no half model is ever there."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from whyformer import __version__
from whyformer.errors import InputError, ModelError, OutputError, WhyformerError, first_line
from whyformer.files import FILE, check_writable, what_is
from whyformer.finetuning.loop import Tuner
from whyformer.finetuning.settings import CHECKPOINTS, Finetuned, Settings
from whyformer.run_folder import RunFolder

RECORD = "finetune.json"


def check_folder(folder: Path) -> None:
    """A folder is new, empty, or holds a run of ours; anything else is left alone."""
    if what_is(folder) == FILE:
        raise InputError(f"{folder} is a file; the model goes to a folder")
    check_writable(folder / RECORD)
    if what_is(folder) is None or run_folder(folder).marked:
        return
    others = sorted(path.name for path in folder.iterdir() if path.name[:11] != ".whyformer-")
    if others:
        raise InputError(
            f"{folder} holds something else ({others[0]}); choose a new or an empty folder"
        )


def run_folder(folder: Path) -> RunFolder:
    """What was asked is one entry of finetune.json, beside what came of it."""
    return RunFolder(folder, RECORD, within="settings")


def result_of(folder: Path) -> Finetuned | None:
    """What came of the run, or None while it is not finished."""
    record = run_folder(folder).read_mark()
    return Finetuned.of(folder, record, before=True) if record.get("finished") else None


def keep(tuner: Tuner, settings: Settings, figures: dict[str, Any], folder: Path) -> Finetuned:
    """Write the model aside, then move its files in, config.json last: half a model never loads."""
    aside = folder / CHECKPOINTS / "model"
    shutil.rmtree(aside, ignore_errors=True)
    model: Any = tuner.model
    model.save_pretrained(aside)
    tuner.tokenizer.save_pretrained(aside)
    for path in sorted(aside.iterdir(), key=lambda path: (path.name == "config.json", path.name)):
        move_in(path, folder / path.name)
    versions = {name: version(name) for name in ("torch", "transformers", "accelerate")}
    versions |= {"whyformer": __version__, "python": platform.python_version()}
    run_folder(folder).write_mark(
        {"finished": True, "settings": asdict(settings), **figures, "versions": versions}
    )
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return Finetuned.of(folder, figures)


def move_in(source: Path, target: Path) -> None:
    """Whole on the disk, and as readable as other files: safetensors writes for the owner alone."""
    source.chmod((source.parent / "config.json").stat().st_mode)
    with open(source, "rb") as file:
        os.fsync(file.fileno())
    os.replace(source, target)


@contextmanager
def failures_said(folder: Path) -> Iterator[None]:
    """Turn the errors of other libraries, while they train and write, into one sentence of ours."""
    try:
        yield
    except WhyformerError:
        raise
    except torch.OutOfMemoryError as error:
        raise ModelError(
            "the memory does not suffice: choose a smaller batch size with a larger accumulate, "
            "or a smaller longest, and another folder"
        ) from error
    except (OSError, SafetensorError) as error:
        raise OutputError(
            f"the run in {folder} broke off: {first_line(error)}; when that is mended, the same "
            "command goes on"
        ) from error
