"""Runs of an evaluation for tests: in this process, or as a command that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from whyformer.evaluation import evaluate

FEW = ("transformer_attribution", "rollout")
SOURCE = str(Path(__file__).resolve().parents[1] / "src")
#: enough samples for a kill to fall between them
COMMAND = ("evaluate", "segmentation", "--limit", "40", "--methods", ",".join(FEW), "-q", "--out")
TWO_RANKS = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m")


def point(why: Any, folder: Path, **options: Any) -> Any:
    given = {"methods": FEW, "limit": 4, "out": folder, "progress": False, **options}
    return evaluate("pointing", why, **given)


def figures(folder: Path) -> Any:
    """All but the times, which are never the same."""
    found = json.loads((folder / "results.json").read_text())
    found.pop("cost", None)
    return found


def start(folder: Path, *launcher: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *launcher, "whyformer", *COMMAND, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCE},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(folder: Path, *launcher: str) -> None:
    process = start(folder, *launcher)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()[-3000:]
