"""Fine-tune a text classifier on sentences or documents with their classes.

A run is a folder. `finetune.json` says what was asked, and in the end what came of it. While it
runs, `checkpoints/` holds what a killed run needs to go on. The model's files are moved in when all
of them are whole, config.json last.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path

from whyformer.errors import ModelError
from whyformer.finetuning.callbacks import SaveWithin
from whyformer.finetuning.classifier import find_model, hash_weights
from whyformer.finetuning.folder import (
    check_folder,
    failures_said,
    keep,
    result_of,
    run_folder,
)
from whyformer.finetuning.loop import measure, prepare, train, training_arguments
from whyformer.finetuning.settings import CHECKPOINTS, Finetuned, Settings, check_settings
from whyformer.finetuning.texts import read_data
from whyformer.models.hugging_face import quiet_transformers
from whyformer.sharing import leave_at_exit, wait

__all__ = ["Finetuned", "finetune"]


def finetune(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    epochs: int = 10,
    batch_size: int = 10,
    learning_rate: float = 1e-5,
    longest: int = 512,
    cut: str = "head",
    patience: int = 2,
    seed: int = 0,
    accumulate: int = 1,
    limit: int | None = None,
    save_every: int | None = None,
    device: str | None = None,
    allow_pickle: bool = False,
    offline: bool = False,
    progress: bool = True,
) -> Finetuned | None:
    """Fine-tune a text classifier; the epoch with the best validation accuracy is kept.

    ``model``: a directory in Hugging Face's layout, a hub id or "demo-text"; with or without a
    classification head. ``data``: an ERASER directory, a folder with train.tsv, or a TSV file.
    ``longest``: word pieces that are read of a text, from its ``cut`` ("head" or "tail").
    ``patience``: epochs without a better one before it stops; 0 never stops early. ``accumulate``:
    batches to a step. ``limit``: evenly chosen texts of each part. ``save_every``: steps between
    checkpoints inside an epoch. Called again with the same settings, a killed run goes on. Under
    ``torchrun`` the first process returns the result, the others None.
    """
    if importlib.util.find_spec("accelerate") is None:
        raise ModelError("fine-tuning needs accelerate: pip install 'whyformer[evaluation]'")
    settings = Settings(
        model=str(model), weights="", data=str(data), samples="", epochs=epochs,
        batch_size=batch_size, learning_rate=learning_rate, longest=longest, cut=cut,
        patience=patience, seed=seed, accumulate=accumulate, limit=limit,
        processes=int(os.environ.get("WORLD_SIZE", "1")),
    )  # fmt: skip
    check_settings(settings, save_every, device)
    folder, first = Path(out), os.environ.get("RANK", "0") == "0"
    if first:  # the others may find what the first has begun
        check_folder(folder)
    texts = read_data(Path(data), limit, seed)
    source = find_model(str(model), allow_pickle, offline)
    settings = replace(settings, weights=hash_weights(source), samples=texts.fingerprint)
    run_folder(folder).check(asdict(settings))
    result = result_of(folder)
    if result is not None:
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        return result if first else None
    with quiet_transformers(), failures_said(folder):
        arguments = training_arguments(settings, folder, device)
        leave_at_exit()
        talk = progress and first
        tuner = prepare(texts, source, settings, arguments, device, allow_pickle, talk)
        if save_every:
            tuner.add_callback(SaveWithin(save_every))
        if first:
            begun = {"finished": False, "settings": asdict(settings)}
            run_folder(folder).write_mark(begun)
        state = train(tuner, folder / CHECKPOINTS, patience)
        figures = measure(tuner, state)
        if first:
            result = keep(tuner, settings, figures, folder)
        wait()
    return result
