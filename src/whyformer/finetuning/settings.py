"""What decides a run's result, and the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from whyformer.errors import InputError, UnknownNameError, nearest

CHECKPOINTS = "checkpoints"
#: what is read of a text that is too long, and the side that tokenizers cut off for it
CUTS = {"head": "right", "tail": "left"}


@dataclass(frozen=True)
class Settings:
    """What decides the result: a folder holds one run with one choice of these."""

    model: str
    data: str
    epochs: int
    batch_size: int
    learning_rate: float
    longest: int
    cut: str
    patience: int
    seed: int
    accumulate: int
    limit: int | None
    processes: int
    #: of the content; last, so that an option that changed it is named first
    weights: str
    samples: str


def check_settings(settings: Settings, save_every: int | None, device: str | None) -> None:
    given = {**asdict(settings), "save_every": save_every}
    for name in ("epochs", "batch_size", "accumulate", "longest", "limit", "save_every"):
        if given[name] is not None and given[name] < 1:
            raise InputError(f"{name} is {given[name]}; expected at least 1")
    for name in ("patience", "seed"):
        if given[name] < 0:
            raise InputError(f"{name} is {given[name]}; expected 0 or more")
    if not 0 < settings.learning_rate < math.inf:
        raise InputError(f"learning_rate is {settings.learning_rate}; expected a number above 0")
    if settings.cut not in CUTS:
        raise UnknownNameError(f"unknown cut {settings.cut!r}; {nearest(settings.cut, CUTS)}")
    if device is not None and device.startswith("cuda:") and device != "cuda:0":
        raise InputError(
            f"device {device!r}: training takes the first visible GPU; set CUDA_VISIBLE_DEVICES="
            f"{device.removeprefix('cuda:')} and give cuda"
        )


@dataclass(frozen=True)
class Finetuned:
    """A finished run: its folder, which ``whyformer.load`` takes, and how good the model is."""

    folder: Path
    validation_accuracy: float
    test_accuracy: float | None
    history: list[dict[str, Any]]
    #: the run had been finished before, and nothing was done
    before: bool = False

    @classmethod
    def of(cls, folder: Path, record: Mapping[str, Any], before: bool = False) -> Finetuned:
        """What a run's record says of it."""
        validation, test = record["validation_accuracy"], record["test_accuracy"]
        return cls(folder, validation, test, record["history"], before)

    @property
    def summary(self) -> str:
        best = max(self.history, key=lambda row: row["validation_accuracy"])
        text = f"validation accuracy {percent(self.validation_accuracy)} "
        text += f"(epoch {best['epoch']} of {len(self.history)})"
        if self.test_accuracy is not None:
            text += f", test accuracy {percent(self.test_accuracy)}"
        return text


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"
