"""Explanations from the files that they were saved to: .json and .npz."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from whyformer.errors import InputError
from whyformer.explanation import Explanation, Part
from whyformer.photo import Crop
from whyformer.tokens import Tokens
from whyformer.words import Piece

ENDINGS = (".json", ".npz")


def read(path: str | Path, method: str | None = None) -> Explanation:
    """The explanation in a file, or one method's of several; a batch of one sample.

    A .json file has no picture and no matrix. Classes that the file does not list, of a model with
    very many, have NaN for a logit.
    """
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        raise InputError(f"{file.name} cannot be loaded again; save it as {' or '.join(ENDINGS)}")
    try:
        data, arrays = _content(file)
        return _explanation(data, arrays, file.name, method)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, IndexError, BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is no explanation that whyformer saved, or is damaged") from error


def _content(file: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if file.suffix.lower() == ".json":
        return dict(json.loads(file.read_text(encoding="utf-8"))), {}
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return dict(json.loads(str(arrays["document"]))), arrays


def _explanation(
    data: dict[str, Any], arrays: dict[str, np.ndarray], name: str, method: str | None
) -> Explanation:
    if data.get("others") or data["kind"] not in ("image", "text"):
        raise InputError(
            f"{name} explains a {data['kind']}, or several inputs at once, which cannot be loaded"
        )
    methods = list(dict.fromkeys(view["method"] for view in data["views"]))
    if method is None and len(methods) > 1:
        raise InputError(
            f"{name} holds {len(methods)} methods; choose one: method={methods[0]!r}, or one of "
            f"{', '.join(methods[1:])}"
        )
    chosen = methods[0] if method is None else method
    places = [i for i, view in enumerate(data["views"]) if view["method"] == chosen]
    if not places:
        raise InputError(f"{name} holds no answer of {chosen!r}; it has {', '.join(methods)}")
    views = [data["views"][i] for i in places]
    pieces = [[_piece(p) for p in data["pieces"]]] if "pieces" in data else None
    relevance = torch.tensor([view["scores"] for view in views], dtype=torch.float64)
    several = len(views) > 1
    relevance = relevance.unsqueeze(0) if several else relevance
    tokens = _tokens(data, relevance.shape[-1])
    picture = None
    if "image" in arrays:
        picture = torch.from_numpy(arrays["image"]).permute(2, 0, 1).unsqueeze(0) / 255
    matrix = None
    if "rows" in arrays:
        rows = torch.from_numpy(arrays["rows"][places])
        matrix = rows.unsqueeze(0) if several else rows
    targets = [view["target"] for view in views]
    classes = all(target is not None and target >= 0 for target in targets)
    asked = torch.tensor([targets] if several else targets) if classes else None
    words = () if classes or None in targets else tuple(view["label"] for view in views)
    crops: list[Crop | None] | None = None
    if "crop" in data.get("image", {}):
        crops = [_crop(data["image"]["crop"])]
    part = Part(tokens, relevance, pieces=pieces, picture=picture, crops=crops)
    logits, labels = _classes(data)
    return Explanation(
        logits=logits,
        target=asked,
        method=chosen,
        preset=data["preset"],
        asked=words,
        parts=(part,),
        matrix=matrix,
        notes=tuple(data["notes"]),
        labels=labels,
        problem=data["problem"],
    )


def _crop(stored: dict[str, Any]) -> Crop:
    """Where the map lies in the photo; the photo itself is in no file."""
    top, left, bottom, right = stored["box"]
    return Crop((stored["height"], stored["width"]), (top, left, bottom, right))


def _tokens(data: dict[str, Any], count: int) -> Tokens:
    if "pieces" in data:
        content = torch.tensor([[piece["content"] for piece in data["pieces"]]])
        return Tokens("text", content)
    image = data["image"]
    rows, columns = image["grid"]
    everywhere = torch.ones(1, count, dtype=torch.bool)
    return Tokens("image", everywhere, (rows, columns), (image["height"], image["width"]))


def _piece(stored: dict[str, Any]) -> Piece:
    return Piece(stored["text"], stored["gap"], stored["word"], stored.get("unknown", ""))


def _classes(data: dict[str, Any]) -> tuple[Tensor, list[str]]:
    """All logits where the file has them; else those of the classes that it lists."""
    listed = {c["index"]: c for c in data["classes"] if c["index"] >= 0}
    if "logits" in data:
        return torch.tensor([data["logits"]], dtype=torch.float64), list(data["labels"])
    count = 1 + max(listed, default=0)
    values = [listed[i]["logit"] if i in listed else float("nan") for i in range(count)]
    names = [listed[i]["label"] if i in listed else str(i) for i in range(count)]
    return torch.tensor([values], dtype=torch.float64), names
