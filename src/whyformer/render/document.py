"""A sheet as plain data: what JSON files hold and what the page is built from.

``views`` has one entry for each method and class; ``scores`` are an image's patches row by row, or
a text's pieces. ``rows`` holds the positive part of the full matrix in bytes, without its diagonal:
entry (i, j) is byte / 255 * scale[i]. A model that reads several inputs has an entry for each
further one in ``others``; a view's ``top`` is then the strongest score of all inputs.
"""

from __future__ import annotations

import base64
import io
import wave
from typing import Any

import numpy as np
from PIL import Image

from whyformer import __version__
from whyformer.explanation import Sound
from whyformer.photo import Crop
from whyformer.render.colour import colour_stops, scale
from whyformer.render.image import enlarged
from whyformer.render.png import png_bytes
from whyformer.render.sheet import ClassScore, Sheet, View
from whyformer.words import Piece, strongest

#: larger matrices stay out of the page
LARGEST_MATRIX = 1024


def document(sheet: Sheet, *, for_page: bool = False, picture: str = "") -> dict[str, Any]:
    """JSON-able; ``for_page`` adds the picture, the matrices and the colours.

    ``picture`` is the address of a picture that exists already.
    """
    data: dict[str, Any] = {
        "whyformer": __version__,
        "kind": sheet.kind,
        "title": sheet.title,
        "model": sheet.model,
        "preset": sheet.preset,
        "problem": sheet.problem,
        "classes": [class_entry(score) for score in sheet.classes],
        "notes": sheet.notes,
        **_part(sheet, for_page, picture),
    }
    if sheet.others:
        data["part"] = sheet.part
        data["others"] = [
            {"kind": other.kind, "part": other.part, **_part(other, for_page)}
            for other in sheet.others
        ]
    return data


def _part(sheet: Sheet, for_page: bool, picture: str = "") -> dict[str, Any]:
    """One input and its views."""
    data: dict[str, Any] = {"views": [_view(view, for_page) for view in sheet.views]}
    if sheet.image is not None:
        rows, columns = sheet.views[0].scores.shape
        width, height = sheet.image.size
        data["image"] = {"width": width, "height": height, "grid": [rows, columns]}
        if for_page:
            data["image"]["src"] = picture or png_data(enlarged(sheet.image))
        if sheet.crop is not None and not sheet.crop.whole:
            data["image"]["crop"] = _crop(sheet.crop, for_page)
    else:
        data["pieces"] = [piece_entry(piece) for piece in sheet.pieces or []]
    if for_page and sheet.frames > 1:
        data["frames"] = sheet.frames
    if for_page and sheet.sound is not None:
        data["sound"] = wav_data(sheet.sound)
        data["seconds"] = len(sheet.sound.samples) / sheet.sound.rate
    if for_page and sheet.image is not None:
        data["heat"] = colour_stops(scale())
    if not for_page and sheet.pieces is not None:
        for entry, view in zip(data["views"], sheet.views, strict=True):
            entry["words"] = [
                {"text": word.text, "score": strongest(view.scores, word.pieces)}
                for word in sheet.words
            ]
    return data


def _crop(crop: Crop, for_page: bool) -> dict[str, Any]:
    """The photo that the image was cut out of: its size, and top, left, bottom, right in it."""
    height, width = crop.size
    entry: dict[str, Any] = {"width": width, "height": height, "box": list(crop.box)}
    if for_page and crop.photo is not None:
        entry["src"] = jpeg_data(crop.photo)
    return entry


def piece_entry(p: Piece) -> dict[str, Any]:
    return (
        {"text": p.text, "gap": p.gap, "word": p.word, "content": p.word is not None}
        | ({"unknown": p.unknown} if p.unknown else {})
        | ({"sink": True} if p.sink else {})
    )


def data_address(kind: str, data: bytes) -> str:
    """What a page loads from itself."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def png_data(image: Image.Image) -> str:
    """An image as a data address."""
    return data_address("image/png", png_bytes(image))


def jpeg_data(image: Image.Image) -> str:
    """The same, small."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=75)
    return data_address("image/jpeg", buffer.getvalue())


def wav_data(sound: Sound) -> str:
    """A sound as a data address: sixteen bits, one channel."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sound.rate)
        samples = (sound.samples.clamp(-1, 1) * 32767).round().cpu().numpy()
        file.writeframes(samples.astype("<i2").tobytes())
    return data_address("audio/wav", buffer.getvalue())


def class_entry(score: ClassScore) -> dict[str, Any]:
    return {
        "index": score.index,
        "label": score.label,
        "logit": score.logit,
        "probability": score.probability,
    }


def _view(view: View, for_page: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "method": view.method,
        "class_specific": view.asked is not None,
        "target": view.asked.index if view.asked else None,
        "label": view.asked.label if view.asked else None,
        "signed": view.signed,
        "scores": [float(score) for score in view.scores.reshape(-1)],
    }
    if view.top is not None:
        entry["top"] = view.top
    if view.box is not None:
        entry["box"] = list(view.box)
    if for_page:
        entry["rows"] = _rows(view.rows)
    return entry


def _rows(matrix: np.ndarray | None) -> dict[str, Any] | None:
    if matrix is None or len(matrix) > LARGEST_MATRIX:
        return None
    positive = np.maximum(matrix, 0)
    # A token stems from itself above all: left in, that would drown what it gathered from others.
    np.fill_diagonal(positive, 0)
    tops = positive.max(1)
    share = positive / np.where(tops > 0, tops, 1)[:, None]
    packed = (share * 255).round().astype(np.uint8)
    return {
        "scale": [float(top) for top in tops],
        "data": base64.b64encode(packed.tobytes()).decode("ascii"),
    }
