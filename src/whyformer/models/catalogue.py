"""The models that ship with the package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True)
class Embedded:
    """A model directory inside the package; ``kind`` is what it reads: "image" or "text"."""

    name: str
    kind: str
    summary: str

    @property
    def path(self) -> Path:
        return Path(str(files("whyformer.demo"))) / self.kind


EMBEDDED = {
    model.name: model
    for model in (
        Embedded("demo-vision", "image", "a small ViT that reads the digit of a cluttered scene"),
        Embedded("demo-text", "text", "a small BERT that tells a film review's sentiment"),
    )
}
