"""Folders of many inputs, and the page that their results have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

RECORDS = ".whyformer-records-0.jsonl"
HOSTILE = '"><img src=x onerror=alert(1)> #?%41\u2028.png'
SCRIPT = "<script>alert(1)</script> a joyless film"
TEXTS = ["a warm film", "A warm and superb story", SCRIPT, "a joyless, dull story"]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """Scenes in a folder for each class; a one lies among the threes."""
    from whyformer.demo.scenes import draw_scene

    folder = tmp_path / "digits"
    for place, digit in (("3/a", 3), ("3/b", 1), ("8/a", 8), ("8/b", 8)):
        path = folder / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_scene(ord(place[-1]), labels=(digit,)).image.save(path)
    return folder


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def document(folder: Path) -> dict[str, Any]:
    """What the page holds."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    found = re.search(r'id="why-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])
