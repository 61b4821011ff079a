"""What is kept of one input of many: small, and enough for the gallery of them all.

``predicted`` and a view's ``asked`` are classes with what the model gave them. A text's view has
``words``: what stands before, the word, its score, which is None where it is not coloured. An
image's has its ``scores``, float32 row by row over ``grid``, and its ``map`` on the scale of its
colours, -127 to 127 in bytes.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from PIL import Image

from whyformer.render.document import class_entry, jpeg_data
from whyformer.render.look import Look
from whyformer.render.mapped import ground_of, mapped, resized
from whyformer.render.scaling import scaled, units_of
from whyformer.render.sheet import Sheet, View

Record = dict[str, Any]
#: the largest width and height of a thumbnail
WIDTH, HEIGHT = 352, 176


def record_of(sheet: Sheet, look: Look, pieces: bool = False) -> Record:
    sheet = scaled(sheet, look.shared, pieces)
    best = sheet.predicted
    record: Record = {
        "kind": sheet.kind,
        "model": sheet.model,
        "method": sheet.views[0].method,
        "predicted": best and class_entry(best),
        "views": [_view(sheet, view, pieces) for view in sheet.views],
    }
    if sheet.image is not None:
        record["thumbnail"] = jpeg_data(thumbnail(sheet, sheet.views[0], look))
    else:
        read = [piece for piece in sheet.pieces or [] if piece.word is not None]
        record["text"] = "".join(piece.gap + piece.text for piece in read).strip()
    return record


def _view(sheet: Sheet, view: View, pieces: bool) -> Record:
    entry: Record = {"asked": view.asked and class_entry(view.asked), "signed": view.signed}
    if sheet.image is None:
        units = units_of(sheet, pieces)
        scores = [None if unit.silent else float(f"{unit.score(view):.4g}") for unit in units]
        heard = [(score, unit.text) for unit, score in zip(units, scores, strict=True) if score]
        entry["strongest"] = max(heard, default=(0, ""))[1].strip()
        told = zip(units, scores, strict=True)
        entry["words"] = [[unit.gap, unit.text, score] for unit, score in told]
        return entry
    entry["strongest"] = _place(sheet, view)
    entry["grid"] = list(view.scores.shape)
    steps = (view.strength * 127).round().astype(np.int8)
    entry["map"] = base64.b64encode(steps.tobytes()).decode("ascii")
    entry["scores"] = base64.b64encode(view.scores.astype("<f4").tobytes()).decode("ascii")
    return entry


def map_of(view: Record) -> np.ndarray:
    """A record's map again, from -1 to 1."""
    steps = np.frombuffer(base64.b64decode(view["map"]), np.int8)
    return steps.reshape(view["grid"]) / 127


def scores_of(view: Record) -> list[Any] | None:
    """A record's scores again: of its words, or its patches row by row; older records have none."""
    if "scores" not in view:
        return [score for _, _, score in view["words"]] if "words" in view else None
    return list(np.frombuffer(base64.b64decode(view["scores"]), "<f4").tolist())


def _place(sheet: Sheet, view: View) -> str:
    """Where the highest score is: a patch, or a sound's moment."""
    row, column = np.unravel_index(int(view.scores.argmax()), view.scores.shape)
    if sheet.sound is not None and len(view.scores) == 1:
        seconds = len(sheet.sound.samples) / sheet.sound.rate
        return f"{seconds * (column + 0.5) / view.scores.shape[1]:.2f} s"
    return f"row {row + 1}, column {column + 1}"


def thumbnail(sheet: Sheet, view: View, look: Look) -> Image.Image:
    image = ground_of(sheet, look)
    share = min(WIDTH / image.width, HEIGHT / image.height)
    return mapped(sheet, view, look, resized(image, (image.width * share, image.height * share)))
