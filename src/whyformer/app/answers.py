"""From a question to a sheet, a document or a file. Everything here runs in the models' thread."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from whyformer.app.incoming import FILE, Input
from whyformer.app.questions import FileQuestion, Question, ViewQuestion
from whyformer.app.recordings import KeptRecording, RecordingCache
from whyformer.app.refusals import RefusalError
from whyformer.app.stories import written
from whyformer.app.uploads import check_file, kind_of
from whyformer.app.worker import Check
from whyformer.engine.rules import get_preset
from whyformer.errors import TargetError
from whyformer.methods import get_method, get_registered
from whyformer.models.recorded import Recorded
from whyformer.render.document import document, png_data
from whyformer.render.look import Look
from whyformer.render.saving import save_sheet
from whyformer.render.sheet import Sheet
from whyformer.render.sheets import make_sheet
from whyformer.render.story import story_document, story_writer
from whyformer.targets import contrast, from_word, place_from_word


def find_reading(cache: RecordingCache, question: Question, given: Input) -> KeptRecording:
    """What the question is about, read by its model now or earlier."""
    own = {why.usual for why in cache.models.values()}
    for name in question.methods:
        if name not in own:
            get_registered(name)
    get_preset(question.preset)
    if given.key is not None:
        reading = cache.find(given.key)
        if reading is None:
            raise RefusalError(410, "this input is not kept any more; send it again")
        return reading
    kind = given.kind
    if kind == FILE and question.model is not None:
        kind = cache.named(question.model).takes
    elif kind == FILE:
        kind = kind_of(given.content, {why.takes for why in cache.models.values()})
    why = cache.model(question.model, kind, given.beside)
    if given.kind == FILE:
        check_file(kind, given.content)
    if isinstance(given.beside.get("similar_to"), bytes):
        check_file(kind, given.beside["similar_to"])
    return cache.read(why, given.content, given.title, given.beside)


def lay_out(question: Question, reading: KeptRecording, check: Check) -> Sheet:
    """The sheet that the command line would make of the same question."""
    recorded = reading.recorded
    targets, place = chosen_targets(question, recorded), place_of(question, recorded)
    if len(targets) > 1 and recorded.several and "edge" not in place:
        targets = [[targets]]
    explanations = []
    recorded.pause = check
    named = [get_method(name) for name in question.methods or [recorded.pipeline.usual]]
    for method in {method.name: method for method in named}.values():
        quiet = method.progress(False)
        for target in targets if recorded.looks_at_target(method) else targets[:1]:
            check()
            explanations += recorded.compare(
                target, [method.name], question.preset, **place, **quiet
            )
    return make_sheet(explanations, title=reading.title, model=recorded.pipeline.name)


def chosen_targets(question: Question, recorded: Recorded) -> list[Any]:
    """What is asked about, each once: by default what the model predicts, None where it is the
    model's to say."""

    def read(given: int | str) -> Any:
        word = from_word(given, recorded.labels) if isinstance(given, str) else given
        return recorded.index_of(word)

    place = place_of(question, recorded)
    other = None if question.rather_than is None else read(question.rather_than)
    targets = list(dict.fromkeys(read(given) for given in question.targets))
    if not targets:
        count = 2 if question.runner_up or other is not None else 1
        found = [] if "region" in place else recorded.likeliest(count, place.get("position"))
        targets = found or [None]
    if other is None:
        return targets
    chosen = [contrast(target, other) for target in targets if target != other]
    if not chosen:
        raise TargetError("a class is asked about rather than itself; give another one")
    return chosen if question.targets else chosen[:1]


def place_of(question: Question, recorded: Recorded) -> dict[str, Any]:
    place = question.position
    place = place_from_word(place) if isinstance(place, str) else place
    region = tuple(question.region) if question.region else None
    return recorded.where(position=place, edge=question.edge, region=region)


def to_document(question: ViewQuestion, reading: KeptRecording, check: Check) -> dict[str, Any]:
    """The answer as data; a page also learns what places the input can be asked about at."""
    if question.write is not None:
        story = story_document(written(question, reading, check), reading.title)
        return {**story, "input": reading.key}
    sheet = lay_out(question, reading, check)
    if not question.detail:
        return {**document(sheet), "input": reading.key}
    shown, recorded = detailed(sheet, reading), reading.recorded
    erases = bool(recorded.units)
    return {**shown, "input": reading.key, "places": recorded.places, "erases": erases}


def detailed(sheet: Sheet, reading: KeptRecording) -> dict[str, Any]:
    """The document that the viewer shows; its picture is packed once for all questions."""
    if sheet.image is not None and not reading.picture:
        reading.picture = png_data(sheet.image)
    return document(sheet, for_page=True, picture=reading.picture)


def to_file(question: FileQuestion, reading: KeptRecording, check: Check) -> bytes:
    with tempfile.TemporaryDirectory(prefix="whyformer-") as folder:
        path = Path(folder) / f"why.{question.format}"
        if question.write is not None:
            story_writer(path)
            return written(question, reading, check).save(path, reading.title).read_bytes()
        sheet = lay_out(question, reading, check)
        check()
        look = Look(opacity=question.opacity, smooth=question.smooth, cropped=question.cropped)
        return save_sheet(sheet, path, pieces=question.pieces, look=look).read_bytes()
