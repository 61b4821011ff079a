"""What happens beside the training: progress, checkpoints, and an end where it diverges."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from tqdm.auto import tqdm
from transformers import ProgressCallback, TrainerCallback

from whyformer.errors import NumericalError
from whyformer.finetuning.settings import percent
from whyformer.words import printable


class Watch(TrainerCallback):
    """Ends a run whose loss is no number any more."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if not math.isfinite(logs.get("loss", 0)):
            raise NumericalError(
                f"the loss is {logs['loss']} at step {state.global_step}: the training has "
                "diverged; choose a lower learning rate and another folder"
            )


class SaveWithin(TrainerCallback):
    """Checkpoints inside an epoch as well; at its end there is one anyway."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if state.global_step % self.steps == 0 and abs(state.epoch - round(state.epoch)) > 1e-6:
            control.should_save = control.should_log = True
        return control


class Progress(ProgressCallback):
    """Trainer's bars, and a sentence an epoch in place of its rows of figures."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        return

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        super().on_evaluate(args, state, control)
        row = history_of(state.log_history)[-1]
        say(
            f"epoch {row['epoch']}/{args.num_train_epochs:g}: loss {row['loss']:.4f}, "
            f"validation accuracy {percent(row['validation_accuracy'])}"
        )


def history_of(log: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row an epoch. Losses were logged at its end, and where checkpoints lie within."""
    rows: list[dict[str, Any]] = []
    total, start, last = 0.0, 0, 0
    for entry in log:
        if "loss" in entry:
            total += entry["loss"] * (entry["step"] - last)
            last = entry["step"]
        elif "eval_accuracy" in entry:
            row = {"epoch": round(entry["epoch"]), "step": last, "loss": total / (last - start)}
            row["validation_loss"] = entry["eval_loss"]
            row["validation_accuracy"] = entry["eval_accuracy"]
            rows.append(row)
            total, start = 0.0, last
    return rows


def say(text: str) -> None:
    tqdm.write(printable(text), file=sys.stderr)
