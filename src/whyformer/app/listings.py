"""What there is: models, classes, methods, and how they are told."""

from __future__ import annotations

from pydantic import BaseModel

from whyformer.app.recordings import RecordingCache
from whyformer.engine import PRESETS
from whyformer.engine.rules import DEFAULT_PRESET
from whyformer.methods import DEFAULT_METHOD, default_methods
from whyformer.methods import methods as known_methods
from whyformer.models.catalogue import EMBEDDED
from whyformer.models.pipeline import Pipeline


class Failure(BaseModel):
    error: str


class ModelEntry(BaseModel):
    """``kind`` is what the model reads, ``beside`` names what is sent with it, ``task`` what it
    does; ``classes`` is None where they have no names, ``method`` what answers unless one is named.
    """

    name: str
    kind: str
    task: str
    beside: list[str]
    classes: int | None
    method: str
    summary: str


class ClassEntry(BaseModel):
    index: int
    label: str


class Classes(BaseModel):
    """``found`` counts all that match, listed or not."""

    model: str
    found: int
    classes: list[ClassEntry]


class MethodEntry(BaseModel):
    """``on_request``: slow or special, and no part of a comparison unless it is named."""

    name: str
    summary: str
    class_specific: bool
    on_request: bool


class Methods(BaseModel):
    default: str
    methods: list[MethodEntry]
    default_preset: str
    presets: list[str]


class ExampleEntry(BaseModel):
    """``text`` is None for a picture; ``texts`` are what it is compared with."""

    name: str
    model: str
    text: str | None
    texts: list[str]


class Health(BaseModel):
    version: str
    taken: int
    places: int


def list_models(cache: RecordingCache) -> list[ModelEntry]:
    return [
        ModelEntry(
            name=name,
            kind=why.takes,
            task=why.kind,
            beside=["pair"] if why.kind == "answers" else list(why.beside),
            classes=len(why.labels) if why.labels else None,
            method=why.usual,
            summary=EMBEDDED[name].summary if name in EMBEDDED else "",
        )
        for name, why in cache.models.items()
    ]


def list_classes(why: Pipeline, search: str, limit: int) -> Classes:
    """By label; a model without labels has its classes found by their number."""
    wanted = search.casefold().strip()
    if why.labels is None:
        number = int(wanted) if wanted.isascii() and wanted.isdigit() else None
        found = [] if number is None or number >= 2**31 else [(number, str(number))]
    else:
        found = [(i, label) for i, label in enumerate(why.labels) if wanted in label.casefold()]
        found.sort(key=lambda entry: nearness(entry[1], wanted))
    entries = [ClassEntry(index=i, label=label) for i, label in found[:limit]]
    return Classes(model=why.name, found=len(found), classes=entries)


def nearness(label: str, wanted: str) -> tuple[bool, bool]:
    """For sorting: what is the searched word comes first, then what begins with it."""
    name = label.casefold().strip()
    return name != wanted, not name.startswith(wanted)


def list_methods() -> Methods:
    """In the order in which they are offered: the paper's first, those on request last."""
    known = known_methods()
    usual = default_methods()
    order = [*usual, *(name for name in known if name not in usual)]
    return Methods(
        default=DEFAULT_METHOD,
        methods=[MethodEntry.model_validate(known[name], from_attributes=True) for name in order],
        default_preset=DEFAULT_PRESET,
        presets=list(PRESETS),
    )
