"""Documents for tests of the report's page: an image and a text whose every score is known."""

from __future__ import annotations

import base64
import io
from typing import Any

from PIL import Image

SCRIPT = "<script>alert(1)</script>"


PICTURE = '"><img src=x onerror=alert(1)>'


TITLE = "</title><b>"


SIDE = 6


PATCHES = SIDE * SIDE


Document = dict[str, Any]


def shifted_rows(count: int) -> Document:
    """The matrix in which every token gathered 0.5 from the next one, and nothing else."""
    cells = bytearray(count * count)
    for i in range(count):
        cells[i * count + (i + 1) % count] = 255
    return {"scale": [0.5] * count, "data": base64.b64encode(cells).decode()}


def view(method: str, target: int | None, scores: list[float], rows: bool = True) -> Document:
    return {
        "method": method,
        "class_specific": target is not None,
        "target": target,
        "label": None if target is None else f"label {target}",
        "scores": scores,
        "rows": shifted_rows(len(scores)) if rows else None,
    }


def peak(index: int, value: float = 0.75, rest: float = 0.0) -> list[float]:
    return [value if i == index else rest for i in range(PATCHES)]


def image_document() -> Document:
    stream = io.BytesIO()
    Image.new("RGB", (96, 96), (120, 140, 160)).save(stream, "PNG")
    classes = [(3, "three", 0.7), (8, "eight", 0.25), (1, "one", 0.05)]
    return {
        "kind": "image",
        "title": "scene.png",
        "model": "demo-vision",
        "preset": "stable",
        "problem": "single_label_classification",
        "classes": [
            {"index": i, "label": label, "logit": 1.0, "probability": p} for i, label, p in classes
        ],
        "notes": ["a note"],
        "image": {
            "src": "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode(),
            "width": 96,
            "height": 96,
            "grid": [SIDE, SIDE],
        },
        "heat": ["#180a3a", "#e25852", "#fdf1af"],
        "views": [
            view("transformer_attribution", 3, peak(7)),
            view("transformer_attribution", 8, peak(28)),
            view("lrp", 3, peak(7, -0.5, 0.01), rows=False),
            view("lrp", 8, peak(28, 0.5), rows=False),
            view("rollout", None, peak(14)),
        ],
    }


def text_document() -> Document:
    def piece(text: str, gap: str, word: int | None) -> Document:
        return {"text": text, "gap": gap, "word": word, "content": word is not None}

    return {
        "kind": "text",
        "title": TITLE,
        "model": PICTURE,
        "preset": "stable",
        "problem": "single_label_classification",
        "classes": [
            {"index": 1, "label": PICTURE, "logit": 2.0, "probability": 0.9},
            {"index": 0, "label": "negative", "logit": -2.0, "probability": 0.1},
        ],
        "notes": [SCRIPT],
        "pieces": [
            piece("[CLS]", "", None),
            piece(SCRIPT, "", 0),
            piece("joy", "\n", 1),
            piece("less", "", 1),
            piece("film", "  ", 2),
            piece("[SEP]", "", None),
        ],
        "views": [
            view("transformer_attribution", 1, [0.0, 0.4, 0.1, 0.2, 0.0, 0.3]),
            view("transformer_attribution", 0, [0.0, 0.0, 0.1, 0.8, 0.05, 0.05]),
            view("lrp", 1, [0.0, 0.5, -0.4, -0.2, 0.1, 0.0], rows=False),
            view("lrp", 0, [0.0, 0.1, 0.2, 0.3, 0.4, 0.0], rows=False),
        ],
    }
