"""Tiny image models with their preprocessing, written to a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zoo import VISION


def save_vit(
    folder: Path, kind: str = "ViTForImageClassification", side: int = 32, **config: Any
) -> Path:
    import transformers

    settings = transformers.ViTConfig(**{**VISION, "image_size": side, **config})
    getattr(transformers, kind)(settings).save_pretrained(folder)
    preprocessor = {
        "image_processor_type": "ViTImageProcessor",
        "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
        "resample": 2, "rescale_factor": 1 / 255, "size": {"height": side, "width": side},
    }  # fmt: skip
    write(folder / "preprocessor_config.json", preprocessor)
    return folder


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))
