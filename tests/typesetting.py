"""LaTeX, run on what the project writes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(path: Path) -> str:
    """Compile a file beside itself; the log."""
    if shutil.which("pdflatex") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("pdflatex is not installed")
        pytest.skip("pdflatex is not installed")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", path.name]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, timeout=120, check=False)
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, log[-2000:]
    assert path.with_suffix(".pdf").stat().st_size > 1000
    return log
