"""Small models and data for the tests of fine-tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from small_texts import save_bert

FAST: dict[str, Any] = {"epochs": 4, "learning_rate": 3e-3, "progress": False, "device": "cpu"}


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes: none of the data here has as many."""
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head that knows good from bad by name."""
    names = {0: "positive", 1: "negative"}
    folder = tmp_path_factory.mktemp("named")
    return save_bert(folder, num_labels=2, id2label=names, label2id={"positive": 0, "negative": 1})


def sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """One word tells the class; the others say nothing, and lengths differ."""
    random = np.random.default_rng(seed)
    pairs = []
    for i in range(count):
        others = list(random.choice(["a", "the", "film", "plot", "but", "is"], 2 + i % 9))
        others.insert(random.integers(len(others)), ("superb", "without")[i % 2])
        pairs.append((" ".join(others), ("POS", "NEG")[i % 2]))
    return pairs


def write_tsv(path: Path, pairs: list[tuple[str, str]], header: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (["sentence\tlabel"] if header else []) + [f"{text}\t{label}" for text, label in pairs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_eraser(folder: Path, **splits: list[tuple[str, str]]) -> Path:
    (folder / "docs").mkdir(parents=True)
    for split, pairs in splits.items():
        lines = []
        for i, (text, label) in enumerate(pairs):
            key = f"{split}-{i}.txt"
            (folder / "docs" / key).write_text(text.replace(" ", "\n", 1))
            entry = {"annotation_id": key, "classification": label, "evidences": []}
            lines.append(json.dumps(entry))
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, count, seed in (("train", 60, 0), ("dev", 20, 1), ("test", 20, 2)):
        write_tsv(tmp_path / "data" / f"{name}.tsv", sentences(count, seed))
    return tmp_path / "data"


def record_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "finetune.json").read_text())
