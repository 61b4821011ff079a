"""From a question to a sheet, a document or a file. Everything here runs in the models' thread."""

from __future__ import annotations

import io
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

from whyformer.app.incoming import Input, check_image
from whyformer.app.questions import FileQuestion, Question, ViewQuestion
from whyformer.app.refusals import RefusalError
from whyformer.app.shelf import Reading, Shelf
from whyformer.app.worker import Check
from whyformer.engine.rules import get_preset
from whyformer.methods import DEFAULT_METHOD, get_method, get_registered
from whyformer.render.document import document
from whyformer.render.look import Look
from whyformer.render.saving import save_sheet
from whyformer.render.sheet import Sheet
from whyformer.render.sheets import make_sheet
from whyformer.targets import class_index, from_word


def find_reading(shelf: Shelf, question: Question, given: Input) -> Reading:
    """What the question is about, read by its model now or earlier."""
    for name in question.methods:
        get_registered(name)
    get_preset(question.preset)
    if given.key is not None:
        reading = shelf.find(given.key)
        if reading is None:
            raise RefusalError(410, "this input is not kept any more; send it again")
        return reading
    why = shelf.model(question.model, given.kind, given.beside)
    if given.kind == "image":
        check_image(given.content)
    return shelf.read(why, given.content, given.title, given.beside)


def lay_out(question: Question, reading: Reading, check: Check) -> Sheet:
    """The sheet that the command line would make of the same question."""
    targets = chosen_classes(question, reading)
    target = targets[0] if len(targets) == 1 else [targets]
    explanations = []
    for name in dict.fromkeys(question.methods or [DEFAULT_METHOD]):
        check()
        quietly = {"progress": False} if "progress" in get_method(name).options else {}
        explanations += reading.recorded.compare(target, [name], question.preset, **quietly)
    return make_sheet(explanations, title=reading.title, model=reading.recorded.pipeline.name)


def chosen_classes(question: Question, reading: Reading) -> list[int]:
    """The classes asked about, each once: by default what the model predicts."""
    logits, asked = reading.recorded.logits[0], reading.recorded
    if not question.targets:
        best = logits.argsort(descending=True).tolist()
        return best[: 2 if question.runner_up else 1]
    words = [from_word(t, asked.labels) if isinstance(t, str) else t for t in question.targets]
    numbers = [class_index(asked.index_of(word), len(logits), None) for word in words]
    return list(dict.fromkeys(numbers))


def to_document(question: ViewQuestion, reading: Reading, check: Check) -> dict[str, Any]:
    sheet = lay_out(question, reading, check)
    if not question.detail:
        return {**document(sheet), "input": reading.key}
    erases = bool(reading.recorded.units)
    return {**detailed(sheet, reading), "input": reading.key, "erases": erases}


def detailed(sheet: Sheet, reading: Reading) -> dict[str, Any]:
    """The document that the viewer shows; its picture is packed once for all questions."""
    if sheet.image is not None and not reading.picture:
        buffer = io.BytesIO()
        sheet.image.save(buffer, "PNG", compress_level=1)
        packed = b64encode(buffer.getvalue()).decode("ascii")
        reading.picture = f"data:image/png;base64,{packed}"
    return document(sheet, for_page=True, picture=reading.picture)


def to_file(question: FileQuestion, reading: Reading, check: Check) -> bytes:
    sheet = lay_out(question, reading, check)
    check()
    look = Look(opacity=question.opacity, smooth=question.smooth)
    with tempfile.TemporaryDirectory(prefix="whyformer-") as folder:
        path = Path(folder) / f"why.{question.format}"
        return save_sheet(sheet, path, pieces=question.pieces, look=look).read_bytes()
