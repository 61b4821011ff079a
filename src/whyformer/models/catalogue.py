"""The models that ship with the package."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True)
class Embedded:
    """A model directory inside the package; ``kind`` is what it reads and answers."""

    name: str
    kind: str
    folder: str
    summary: str

    @property
    def path(self) -> Path:
        return Path(str(files("whyformer.demo"))) / self.folder


EMBEDDED = {
    model.name: model
    for model in (
        Embedded(
            "demo-vision", "image", "image", "a small ViT that reads the digit of a cluttered scene"
        ),
        Embedded("demo-text", "text", "text", "a small BERT that tells a film review's sentiment"),
        Embedded(
            "demo-writer", "language", "writer", "a small Llama that answers questions on a story"
        ),
        Embedded("demo-clip", "towers", "clip", "a small CLIP that tells a scene's caption"),
        Embedded(
            "demo-detector", "detection", "detector", "a small YOLOS that finds a scene's digits"
        ),
        Embedded(
            "demo-swin", "image", "swin", "a small Swin that reads a cluttered scene's digits"
        ),
    )
}
