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
from whyformer.render.document import document, png_bytes
from whyformer.render.drawing import raster
from whyformer.render.figure import Figure, stacked
from whyformer.render.latex import image_latex, text_latex
from whyformer.render.look import Look
from whyformer.render.pages import text_figure
from whyformer.render.palettes import check_colours, page_colours
from whyformer.render.panels import image_figure
from whyformer.render.report import report_html
from whyformer.render.sheet import Sheet
from whyformer.render.sheets import make_sheet
from whyformer.render.svg import to_svg


def save(
    explanations: Explanation | Sequence[Explanation],
    path: str | Path,
    *,
    sample: int = 0,
    title: str = "",
    model: str = "",
    pieces: bool = False,
    look: Look | None = None,
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


def save_sheet(
    sheet: Sheet, path: str | Path, *, pieces: bool = False, look: Look | None = None
) -> Path:
    target = Path(path)
    make = writer(target)
    make(sheet, target, pieces, look)
    return target


def writer(path: Path) -> Callable[[Sheet, Path, bool, Look | None], None]:
    """What writes a file of that name, or an error that lists the endings there are."""
    ending = path.suffix.lower()
    if ending not in WRITERS:
        raise InputError(
            f"{path.name!r} has {'no ending' if not ending else f'the ending {ending!r}'}; "
            f"known: {', '.join(WRITERS)}"
        )
    return WRITERS[ending]


def png(sheet: Sheet, pieces: bool = False, look: Look | None = None) -> bytes:
    dpi = (look or Look()).dpi
    return png_bytes(raster(figure(sheet, pieces, look), dpi), dpi)


def figure(sheet: Sheet, pieces: bool = False, look: Look | None = None) -> Figure:
    """What PNG, SVG and PDF show: all inputs of the model, one below the other, then the notes.

    Many words of an answer are rows of one picture.
    """
    look = look or Look()
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


def _save_png(sheet: Sheet, path: Path, pieces: bool, look: Look | None) -> None:
    write_whole(path, png(sheet, pieces, look))


def _save_gif(sheet: Sheet, path: Path, pieces: bool, look: Look | None) -> None:
    dpi = (look or Look()).dpi
    write_whole(path, gif(sheet, lambda frame: raster(figure(frame, pieces, look), dpi)))


def _save_html(sheet: Sheet, path: Path, pieces: bool, look: Look | None) -> None:
    look = look or Look()
    check_colours(look.colours, sheet)
    start = {
        "opacity": round(100 * look.opacity),
        "smooth": look.smooth,
        "pieces": pieces,
        "shared": look.shared,
        "cropped": look.cropped,
        "colours": page_colours(look.colours),
    }
    write_whole(path, report_html({**document(sheet, for_page=True), "start": start}))


def _save_json(sheet: Sheet, path: Path, pieces: bool, look: Look | None) -> None:
    write_whole(path, json.dumps(whole_document(sheet), indent=1, ensure_ascii=False) + "\n")


def whole_document(sheet: Sheet) -> dict[str, Any]:
    """The document with what it takes to load it again."""
    if sheet.logits is None:
        return document(sheet)
    return {**document(sheet), "logits": sheet.logits, "labels": sheet.labels}


def _save_npz(sheet: Sheet, path: Path, pieces: bool, look: Look | None) -> None:
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
    write_whole(path, buffer.getvalue())


def _save_latex(sheet: Sheet, path: Path, pieces: bool, look: Look | None) -> None:
    if sheet.image is None and not sheet.others:
        write_whole(path, text_latex(sheet, pieces, look))
        return
    panel = panel_path(path)
    _save_png(sheet, panel, pieces, look)
    write_whole(path, image_latex(sheet, panel.name, look))


def panel_path(path: Path) -> Path:
    """Where an image's panels lie beside its LaTeX document, by a name that LaTeX can read."""
    safe = re.sub(r"[^A-Za-z0-9-]", "-", path.stem)
    if safe != path.stem:
        safe += "-" + hashlib.sha256(path.stem.encode("utf-8", "replace")).hexdigest()[:8]
    return path.with_name(f"{safe}-panels.png")


def _save_svg(sheet: Sheet, path: Path, pieces: bool, look: Look | None) -> None:
    write_whole(path, to_svg(figure(sheet, pieces, look)))


def _save_pdf(sheet: Sheet, path: Path, pieces: bool, look: Look | None) -> None:
    from whyformer.render.pdf import to_pdf

    write_whole(path, to_pdf(figure(sheet, pieces, look)))


WRITERS: dict[str, Callable[[Sheet, Path, bool, Look | None], None]] = {
    ".png": _save_png,
    ".gif": _save_gif,
    ".html": _save_html,
    ".json": _save_json,
    ".npz": _save_npz,
    ".tex": _save_latex,
    ".svg": _save_svg,
    ".pdf": _save_pdf,
}
