"""How long something takes, and what that is in forwards of the model."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

Answer = TypeVar("Answer")


class Clock:
    """Explanations' times, method by method, beside that of the model's own forward."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seconds: dict[str, float] = {}
        self.forward: float | None = None

    def time(self, work: Callable[[], Answer]) -> tuple[Answer, float]:
        """What the work gives, and its seconds; a GPU finishes what it was told first."""
        self._wait()
        began = time.perf_counter()
        answer = work()
        self._wait()
        return answer, time.perf_counter() - began

    def add(self, method: str, seconds: float) -> None:
        """One explanation's time, its recorded forward included; only the first is kept."""
        self._seconds.setdefault(method, seconds)

    def cost(self, method: str) -> dict[str, float]:
        """For the method's record; nothing where its map was not made now."""
        if method not in self._seconds or not self.forward:
            return {}
        return {"forwards": round(self._seconds[method] / self.forward, 3)}

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
