"""Explanations to files: the ending of the name says which kind."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whyformer.errors import InputError
from whyformer.explanation import Explanation
from whyformer.files import FOLDER, what_is, write_whole
from whyformer.render.alignment import answer_figure, is_answer
from whyformer.render.animation import gif
from whyformer.render.document import document
from whyformer.render.drawing import raster
from whyformer.render.figure import Figure, stacked
from whyformer.render.latex import image_latex, text_latex
from whyformer.render.look import USUAL, Look
from whyformer.render.pages import text_figure
from whyformer.render.palettes import check_colours, page_colours
from whyformer.render.panels import image_figure
from whyformer.render.png import png_bytes
from whyformer.render.report import report_html
from whyformer.render.sheet import Sheet
from whyformer.render.sheets import make_sheet
from whyformer.render.svg import to_svg

Writer = Callable[[Sheet, Path, bool, Look], bytes | str]


def save(
    explanations: Explanation | Sequence[Explanation],
    path: str | Path,
    *,
    sample: int = 0,
    title: str = "",
    model: str = "",
    pieces: bool = False,
    look: Look = USUAL,
) -> Path:
    """Write a picture, a page or numbers: .png, .svg, .pdf, .html, .json, .npz or .tex.

    Several explanations of the same input share one file. Of a batch it is the ``sample``'s; a
    folder, or a name with a place for the sample's number such as "why-{}.html", takes them all,
    and is returned as the folder. ``pieces`` shows a text's word pieces instead of its words;
    ``look`` says how things are drawn.
    """
    given = [explanations] if isinstance(explanations, Explanation) else list(explanations)
    every = paths_of_all(path, len(given[0])) if given else None
    for i, place in enumerate(every or []):
        sheet = make_sheet(given, i, title=title, model=model)
        save_sheet(sheet, place, pieces=pieces, look=look)
    if every:
        return every[0].parent
    sheet = make_sheet(given, sample, title=title, model=model)
    return save_sheet(sheet, path, pieces=pieces, look=look)


def paths_of_all(path: str | Path, count: int) -> list[Path] | None:
    """A file for each sample, where the path is a folder or has a place for a number."""
    target = Path(path)
    if what_is(target) == FOLDER or str(path).endswith(("/", os.sep)):
        target = target / "{:05d}.png"
    elif not re.search(r"\{(:[0-9]*d)?\}", target.name):
        return None
    return [target.with_name(target.name.format(i + 1)) for i in range(count)]


def save_sheet(sheet: Sheet, path: str | Path, *, pieces: bool = False, look: Look = USUAL) -> Path:
    target = Path(path)
    write_whole(target, writer(target)(sheet, target, pieces, look))
    return target


def writer(path: Path) -> Writer:
    """What makes a file of that name, or an error that lists the endings there are."""
    ending = path.suffix.lower()
    if ending not in WRITERS:
        raise InputError(
            f"{path.name!r} has {'no ending' if not ending else f'the ending {ending!r}'}; "
            f"known: {', '.join(WRITERS)}"
        )
    return WRITERS[ending]


def png(sheet: Sheet, pieces: bool = False, look: Look = USUAL) -> bytes:
    return png_bytes(raster(figure(sheet, pieces, look), look.dpi), look.dpi)


def figure(sheet: Sheet, pieces: bool = False, look: Look = USUAL) -> Figure:
    """What PNG, SVG and PDF show: all inputs of the model, one below the other, then the notes.

    Many words of an answer are rows of one picture.
    """
    check_colours(look.colours, sheet)
    if is_answer(sheet):
        return answer_figure(sheet)
    *others, last = sheet.parts
    parts = [*(replace(part, notes=[]) for part in others), replace(last, notes=sheet.notes)]
    return stacked(
        [
            text_figure(part, pieces, look) if part.image is None else image_figure(part, look)
            for part in parts
        ]
    )


def _html(sheet: Sheet, path: Path, pieces: bool, look: Look) -> str:
    check_colours(look.colours, sheet)
    start = {
        "opacity": round(100 * look.opacity),
        "smooth": look.smooth,
        "pieces": pieces,
        "shared": look.shared,
        "cropped": look.cropped,
        "colours": page_colours(look.colours),
    }
    return report_html({**document(sheet, for_page=True), "start": start})


def _json(sheet: Sheet, path: Path, pieces: bool, look: Look) -> str:
    return json.dumps(whole_document(sheet), indent=1, ensure_ascii=False) + "\n"


def whole_document(sheet: Sheet) -> dict[str, Any]:
    """The document with what it takes to load it again."""
    if sheet.logits is None:
        return document(sheet)
    return {**document(sheet), "logits": sheet.logits, "labels": sheet.labels}


def _npz(sheet: Sheet, path: Path, pieces: bool, look: Look) -> bytes:
    """``scores`` (views, ...) with each view's ``method``, ``target`` and ``label``.

    Those of further inputs have the input's name before them, such as "text.scores". ``document``
    is what a .json file holds.
    """
    arrays = {
        "document": np.array(json.dumps(whole_document(sheet))),
        "method": np.array([view.method for view in sheet.views]),
        "target": np.array([view.asked.index if view.asked else -1 for view in sheet.views]),
        "label": np.array([view.asked.label if view.asked else "" for view in sheet.views]),
    }
    for part in sheet.parts:
        before = "" if part is sheet else f"{part.part}."
        arrays[before + "scores"] = np.stack([view.scores for view in part.views])
        if part.image is not None:
            arrays[before + "image"] = np.asarray(part.image)
        else:
            arrays[before + "pieces"] = np.array([piece.text for piece in part.pieces or []])
    if all(view.rows is not None for view in sheet.views):
        arrays["rows"] = np.stack([view.rows for view in sheet.views if view.rows is not None])
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _latex(sheet: Sheet, path: Path, pieces: bool, look: Look) -> str:
    if sheet.image is None and not sheet.others:
        return text_latex(sheet, pieces, look)
    panel = panel_path(path)
    write_whole(panel, png(sheet, pieces, look))
    return image_latex(sheet, panel.name, look)


def panel_path(path: Path) -> Path:
    """Where an image's panels lie beside its LaTeX document, by a name that LaTeX can read."""
    safe = re.sub(r"[^A-Za-z0-9-]", "-", path.stem)
    if safe != path.stem:
        safe += "-" + hashlib.sha256(path.stem.encode("utf-8", "replace")).hexdigest()[:8]
    return path.with_name(f"{safe}-panels.png")


def _pdf(sheet: Sheet, path: Path, pieces: bool, look: Look) -> bytes:
    from whyformer.render.pdf import to_pdf

    return to_pdf(figure(sheet, pieces, look))


WRITERS: dict[str, Writer] = {
    ".png": lambda sheet, path, pieces, look: png(sheet, pieces, look),
    ".gif": lambda sheet, path, pieces, look: gif(
        sheet, lambda frame: raster(figure(frame, pieces, look), look.dpi)
    ),
    ".html": _html,
    ".json": _json,
    ".npz": _npz,
    ".tex": _latex,
    ".svg": lambda sheet, path, pieces, look: to_svg(figure(sheet, pieces, look)),
    ".pdf": _pdf,
}
