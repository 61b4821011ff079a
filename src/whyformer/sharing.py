"""Processes that share work, as ``torchrun`` starts them: each takes its part, and they wait."""

from __future__ import annotations

import atexit
import os
from datetime import timedelta

#: processes wait this long for the slowest of them
PATIENCE = timedelta(days=14)


def processes() -> tuple[int, int]:
    """This process's rank and how many there are; joins the group that ``torchrun`` set up.

    Processes only wait for each other, so gloo serves on GPUs as well.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        from torch import distributed

        if not distributed.is_initialized():
            distributed.init_process_group("gloo", timeout=PATIENCE)
            leave_at_exit()
    return int(os.environ.get("RANK", "0")), size


def leave_at_exit() -> None:
    """Leave the group before Python ends: gloo's threads, left alone, can abort the process."""
    from torch import distributed

    def leave() -> None:
        if distributed.is_initialized():
            distributed.destroy_process_group()

    atexit.register(leave)


def wait() -> None:
    """Until all processes are here."""
    from torch import distributed

    if distributed.is_initialized():
        distributed.barrier()


def total(*counts: int) -> list[int]:
    """What all processes have together; each waits for the others."""
    from torch import distributed, tensor

    together = tensor(counts)
    if distributed.is_initialized():
        distributed.all_reduce(together)
    return [int(count) for count in together]
