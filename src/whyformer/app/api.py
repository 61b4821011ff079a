"""The JSON API under ``/api/v1``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from whyformer import __version__
from whyformer.app.answers import find_reading, to_document, to_file
from whyformer.app.blocks import to_blocks
from whyformer.app.erasing import Erasure, to_erasure
from whyformer.app.examples import examples, picture
from whyformer.app.glance import to_heads
from whyformer.app.incoming import read_json, read_question
from whyformer.app.listings import (
    Classes,
    ExampleEntry,
    Failure,
    Health,
    Methods,
    ModelEntry,
    list_classes,
    list_methods,
    list_models,
)
from whyformer.app.questions import (
    BlockQuestion,
    EraseQuestion,
    FileQuestion,
    HeadQuestion,
    Name,
    Question,
    ViewQuestion,
    body,
    json_body,
)
from whyformer.app.recipes import Recipe, RecipeQuestion, recipe
from whyformer.app.recordings import KeptRecording, RecordingCache
from whyformer.app.refusals import json_response
from whyformer.app.worker import Check, Worker
from whyformer.engine.rules import get_preset
from whyformer.errors import InputError

Q = TypeVar("Q", bound=Question)
T = TypeVar("T")

KINDS = {
    "png": "image/png",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "npz": "application/octet-stream",
    "svg": "image/svg+xml",
    "gif": "image/gif",
}
REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": Failure, "description": "A damaged request"},
    408: {"model": Failure, "description": "A request that took too long to arrive"},
    410: {"model": Failure, "description": "An input that is not kept any more"},
    413: {"model": Failure, "description": "Too large"},
    415: {"model": Failure, "description": "A type that is not read here"},
    422: {"model": Failure, "description": "A question that has no answer, and why"},
    503: {"model": Failure, "description": "All places are taken; see Retry-After"},
}
UNREAD: dict[int | str, dict[str, Any]] = {k: REFUSED[k] for k in (408, 413, 415, 422)}
BAD: dict[int | str, dict[str, Any]] = {422: REFUSED[422]}


def make_api(cache: RecordingCache, worker: Worker) -> APIRouter:
    api = APIRouter(prefix="/api/v1")

    async def answer(
        request: Request, kind: type[Q], make: Callable[[Q, KeptRecording, Check], T]
    ) -> tuple[Q, T]:
        """Read the question, have it answered in the models' thread, or stop if nobody waits."""
        with worker.arrival():
            question, given = await read_question(request, kind)
        with worker.place():

            def work(check: Check) -> T:
                check()
                return make(question, find_reading(cache, question, given), check)

            return question, await worker.run(work, client_left(request))

    @api.post("/explain", responses={200: DOCUMENT, **REFUSED}, openapi_extra=body(ViewQuestion))
    async def explain(request: Request) -> Response:
        """How much every patch or word spoke for each class, by each method."""
        _, document = await answer(request, ViewQuestion, to_document)
        return json_response(document)

    @api.post("/blocks", responses={200: DOCUMENT, **REFUSED}, openapi_extra=body(BlockQuestion))
    async def blocks(request: Request) -> Response:
        """Attention, gradient, relevance and their product in one block, for the first class."""
        _, document = await answer(request, BlockQuestion, to_blocks)
        return json_response(document)

    @api.post("/heads", responses={200: HEADS, **REFUSED}, openapi_extra=body(HeadQuestion))
    async def heads(request: Request) -> Response:
        """One map of every head of every block, for the first class."""
        _, document = await answer(request, HeadQuestion, to_heads)
        return json_response(document)

    @api.post("/erase", responses=REFUSED, openapi_extra=body(EraseQuestion))
    async def erase(request: Request) -> Erasure:
        """The classes' probabilities without some patches or words, beside those with all."""
        _, erasure = await answer(request, EraseQuestion, to_erasure)
        return erasure

    @api.post("/save", responses={200: FILE, **REFUSED}, openapi_extra=body(FileQuestion))
    async def save(request: Request) -> Response:
        """The answer as a file to keep."""
        question, data = await answer(request, FileQuestion, to_file)
        name = f'attachment; filename="why.{question.format}"'
        kind = KINDS[question.format]
        return Response(data, headers={"Content-Disposition": name}, media_type=kind)

    @api.post("/recipe", responses=UNREAD, openapi_extra=json_body(RecipeQuestion))
    async def make_recipe(request: Request) -> Recipe:
        """The same question as Python code and as a command, with the model as it was given."""
        question = await read_json(request, RecipeQuestion)
        get_preset(question.preset)
        why = cache.named(question.model)
        labels = None if why.kind == "answers" else why.labels
        return recipe(question.model_copy(update={"model": why.source}), labels, why.usual)

    @api.get("/models")
    async def models() -> list[ModelEntry]:
        """The models that were given when the server was started; there are no others."""
        return list_models(cache)

    @api.get("/classes", responses=BAD)
    async def classes(
        model: Name,
        search: Name = "",
        limit: Annotated[int, Query(ge=1, le=100_000)] = 100,
    ) -> Classes:
        """A model's classes whose label holds the searched words."""
        return list_classes(cache.named(model), search, limit)

    @api.get("/methods")
    async def methods() -> Methods:
        """The methods and the presets."""
        return list_methods()

    @api.get("/examples")
    async def list_examples() -> list[ExampleEntry]:
        """Inputs to try with the embedded models."""
        known = [example for example in examples().values() if example.model in cache.models]
        return [
            ExampleEntry(name=e.name, model=e.model, text=e.text, texts=list(e.texts))
            for e in known
        ]

    @api.get("/examples/picture", response_class=Response, responses={200: PICTURE, **BAD})
    async def example_picture(name: Name) -> Response:
        """An example's picture."""
        example = examples().get(name)
        if example is None or example.text is not None:
            raise InputError("no example picture of that name; see /api/v1/examples")
        return Response(await asyncio.to_thread(picture, name), media_type="image/png")

    @api.get("/health")
    async def health() -> Health:
        """Whether the server lives, and how many of its places are taken."""
        return Health(version=__version__, taken=worker.taken, places=worker.places)

    return api


DOCUMENT: dict[str, Any] = {
    "description": "The document that `whyformer explain --json` prints, and `input`, its key",
    "content": {"application/json": {"schema": {"type": "object"}}},
}
HEADS: dict[str, Any] = {
    "description": "A row for each block: the mean of its heads, then every head, in bytes",
    "content": {"application/json": {"schema": {"type": "object"}}},
}
FILE: dict[str, Any] = {
    "description": "The file",
    "content": {kind: {} for kind in KINDS.values()},
}
PICTURE: dict[str, Any] = {"description": "A PNG file", "content": {"image/png": {}}}


async def client_left(request: Request) -> None:
    """Ends when the client has closed its connection; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
