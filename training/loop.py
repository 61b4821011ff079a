"""What the trainings share: the schedule, a loop with a log, and how a model is kept."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from whyformer.files import write_whole

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "whyformer" / "demo"


def fit(
    modules: nn.Module,
    batches: Iterable[Any],
    steps: int,
    loss_of: Callable[[Any, float], Tensor],
    *,
    rate: float,
    decay: float = 0.05,
    log_every: int = 200,
) -> list[float]:
    """AdamW with warm-up and a cosine; ``loss_of(batch, progress)``. Returns every step's loss."""
    weights = [p for p in modules.parameters() if p.requires_grad]
    matrices = [p for p in weights if p.ndim > 1]
    others = [p for p in weights if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))
    warm_up = max(1, steps // 20)

    def schedule(step: int) -> float:
        if step < warm_up:
            return (step + 1) / warm_up
        return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, schedule)
    losses: list[float] = []
    started = time.monotonic()
    modules.train()
    for step, batch in enumerate(tqdm(batches, total=steps, mininterval=10)):
        loss = loss_of(batch, step / steps)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()
        scheduler.step()
        losses.append(loss.item())
        if (step + 1) % log_every == 0:
            recent = sum(losses[-log_every:]) / log_every
            spent = (time.monotonic() - started) / 60
            tqdm.write(f"step {step + 1}/{steps}  loss {recent:.4f}  {spent:.1f} min")
    modules.eval()
    return losses


def saved(model: Any, *processors: Any) -> dict[str, bytes | str]:
    """The files of a transformers model in half precision and of what prepares its inputs."""
    with tempfile.TemporaryDirectory() as folder:
        for part in (model.half(), *processors):
            part.save_pretrained(folder)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def keep(files: dict[str, bytes | str], folder: Path) -> None:
    """Write a model's files, each whole."""
    for name, content in files.items():
        write_whole(folder / name, content)
    print(f"{folder.name}: {sum(map(len, files.values())) / 1e6:.2f} MB")
