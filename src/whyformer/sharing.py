"""Processes that share work, as ``torchrun`` starts them: each takes its part, and they wait."""

from __future__ import annotations

import atexit
import os
import sys
from datetime import timedelta
from typing import NoReturn

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


def end(status: int) -> NoReturn:
    """End this process with a status; one of a group at once, when all that it wrote is out.

    Where Python takes itself down, gloo's threads that still run abort the process now and then,
    though it has left the group.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        sys.exit(status)
    distributed.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


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
