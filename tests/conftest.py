"""Shared set-up: the golden cases, and the weights that may lie beside the repository."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

pytest_plugins = """
browsing command_line galleries releasing serving spoiling text_models tuning
""".split()

SHARED = Path(__file__).resolve().parents[2] / "shared"
GOLDEN = Path(__file__).with_name("golden")
ABSENT = ": not beside the repository"


def _stand_in_for_torchvision_operators() -> None:
    """torchvision registers ``nms`` in its compiled part; without it, importing it fails.

    Nothing here calls the operators; their names only have to exist.
    """
    try:
        from importlib.metadata import version

        version("torchvision")
    except ImportError:
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    globals()["_operators"] = library


_stand_in_for_torchvision_operators()
settings.register_profile("patient", deadline=None)  # the first example often imports something
settings.load_profile("patient")
torch.set_num_threads(1)  # the test runner keeps the cores busy with workers


def shared(*parts: str) -> Path:
    """A path beside the repository, or a skip that says what is missing."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(('shared', *parts))}{ABSENT}")
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever opens a browser carries the mark, so that no environment without one runs it."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was skipped for want of something is one line for each thing; all data is one."""
    reasons: Counter[str] = Counter()
    absent: set[str] = set()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "?"
        reason = reason.removeprefix("Skipped: ")
        if reason.endswith(ABSENT):
            absent.add(reason.removesuffix(ABSENT))
            reason = ABSENT
        reasons[reason] += 1
    for reason, count in reasons.most_common():
        things = ", ".join(sorted(absent)) if reason == ABSENT else ""
        terminalreporter.write_line(f"{count} skipped: {things}{reason}")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
