"""Saved models to spoil, and what is said when they are loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import whyformer
from whyformer import WhyformerError


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refused(kind: type[WhyformerError], name: Any, **how: Any) -> str:
    """The message of the expected error, which must be one sentence."""
    with pytest.raises(kind) as caught:
        whyformer.load(name, **how)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from small_images import save_vit
    from small_texts import save_bert

    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("saved")
    return {"vit": save_vit(root / "vit"), "bert": save_bert(root / "bert")}


@pytest.fixture
def vit_copy(saved: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(saved["vit"], tmp_path / "vit"))


@pytest.fixture
def bert_copy(saved: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved["bert"], tmp_path / "bert"))


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def to_pickle(folder: Path) -> None:
    from safetensors.torch import load_file

    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")


class Evil:
    """Unpickling it touches a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)
