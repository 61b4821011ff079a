"""From a request's bytes to a question: sizes, types and times are limited before anything runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from whyformer.app.examples import examples, picture
from whyformer.app.questions import FILES, LISTS, MOST_TEXT, WITHOUT_FILE, Question
from whyformer.app.refusals import RefusalError
from whyformer.app.worker import AbandonedError
from whyformer.words import printable, shorten

MEGABYTE = 2**20
LARGEST_JSON = MEGABYTE
LARGEST_UPLOAD = 20 * MEGABYTE
#: seconds for a body to arrive
PATIENCE = 30
#: what a file is until it is known which model reads it
FILE = "file"
JSON, FORM = "application/json", "multipart/form-data"

M = TypeVar("M", bound=BaseModel)
Q = TypeVar("Q", bound=Question)


@dataclass(frozen=True)
class Input:
    """What is explained: ``content`` as models read it, or the ``key`` of an earlier reading.

    ``beside`` is what models read beside it, by its name in Python.
    """

    kind: str
    title: str
    content: Any = None
    key: str | None = None
    beside: dict[str, Any] = field(default_factory=dict)


async def read_question(request: Request, kind: type[Q]) -> tuple[Q, Input]:
    """The question and what it is about, from JSON or from a form with a file."""
    async with arriving():
        if declared_type(request) == FORM:
            return await read_form(request, kind)
        question = await read_body(request, kind)
        return question, with_beside(from_json(question), question)


async def read_json(request: Request, kind: type[M]) -> M:
    """A question that is JSON and nothing else."""
    async with arriving():
        return await read_body(request, kind)


@asynccontextmanager
async def arriving() -> AsyncIterator[None]:
    """A body has so much time, and its client may leave before it is whole."""
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except TimeoutError as error:
        raise RefusalError(408, f"the request took more than {PATIENCE} seconds") from error
    except ClientDisconnect as error:
        raise AbandonedError from error


async def read_body(request: Request, kind: type[M]) -> M:
    declared = declared_type(request)
    if declared != JSON:
        raise RefusalError(
            415,
            f"the body is {shorten(declared) or 'of no declared type'}; send {JSON}, or {FORM} "
            "where a file is explained",
        )
    return check(kind, b"".join([part async for part in limited(request, LARGEST_JSON)]))


def declared_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def limited(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """The body's parts, until there are too many; what says so beforehand is not read at all."""
    too_large = RefusalError(
        413, f"the request is larger than {most // MEGABYTE} MB; send something smaller"
    )
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > most:
        raise too_large
    so_far = 0
    async for part in request.stream():
        so_far += len(part)
        if so_far > most:
            raise too_large
        yield part


def check(kind: type[M], given: bytes | dict[str, Any]) -> M:
    try:
        if isinstance(given, bytes):
            return kind.model_validate_json(given, strict=True)
        return kind.model_validate(given)
    except ValidationError as error:
        raise RefusalError(422, what_is_wrong(error)) from error


def what_is_wrong(error: ValidationError) -> str:
    """The first field that is wrong; one that may be several things, with all that it may be."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    place = place_of(found[0]["loc"])
    told = dict.fromkeys(each["msg"] for each in found if place_of(each["loc"]) == place)
    return printable(f"{shorten(place)}: {', or '.join(told)}; see /api/v1/openapi.json")


def place_of(parts: tuple[int | str, ...]) -> str:
    """A field and the numbers of items in it, without what pydantic calls its kinds."""
    named = [str(part) for i, part in enumerate(parts) if i == 0 or isinstance(part, int)]
    return ".".join(named) or "the body"


def from_json(question: Question) -> Input:
    given = [name for name in ("text", "example", "input") if getattr(question, name) is not None]
    if len(given) != 1:
        raise RefusalError(
            422, "give one of text, example and input, or send a file as multipart/form-data"
        )
    if question.pair is not None and question.text is None:
        raise RefusalError(422, "pair goes with text")
    if question.input is not None:
        return Input("", "", key=question.input)
    if question.example is not None:
        return from_example(question.example)
    assert question.text is not None
    if len(question.text) + len(question.pair or "") > MOST_TEXT:
        raise RefusalError(413, f"the text is longer than {MOST_TEXT} characters; send a part")
    both = question.text if question.pair is None else (question.text, question.pair)
    return Input("text", shorten(question.text), both)


def from_example(name: str) -> Input:
    example = examples().get(name)
    if example is None:
        known = ", ".join(examples())
        raise RefusalError(422, f"no example {shorten(name)!r}; known: {known}")
    if example.text is not None:
        return Input("text", shorten(example.text), example.text)
    return Input("image", name, picture(name))


async def read_form(request: Request, kind: type[Q]) -> tuple[Q, Input]:
    stream = limited(request, LARGEST_UPLOAD)
    parser = MultiPartParser(
        request.headers, stream, max_files=2, max_fields=1000, max_part_size=MEGABYTE
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, UnicodeError) as error:
        reason = getattr(error, "message", "it cannot be taken apart")
        raise RefusalError(400, f"the form is damaged: {reason}") from error
    try:
        files = [(name, part) for name, part in form.multi_items() if name in FILES]
        others = [part for name, part in form.multi_items() if name == "similar_to"]
        if not files or not isinstance(files[0][1], UploadFile):
            raise RefusalError(422, "the form holds no file named file")
        if len(files) > 1:
            raise RefusalError(422, f"{len(files)} files were sent; send one named file")
        if len(others) > 1 or any(isinstance(part, str) for part in others):
            raise RefusalError(422, "similar_to is one file beside a file, not a text")
        fields: dict[str, Any] = {}
        for name in form:
            if name in WITHOUT_FILE:
                raise RefusalError(422, f"{name} does not go with a file")
            values = form.getlist(name)
            if name in LISTS:
                fields[name] = values
            elif len(values) > 1:
                raise RefusalError(
                    422, f"{shorten(name)} is given {len(values)} times; give it once"
                )
            elif name not in (*FILES, "similar_to"):
                fields[name] = values[0]
        data = await files[0][1].read()
        title = title_of(files[0][1].filename)
        beside = {}
        if others and isinstance(others[0], UploadFile):
            beside["similar_to"] = await others[0].read()
    finally:
        await form.close()
    question = check(kind, fields)
    return question, with_beside(Input(FILE, title, data, beside=beside), question)


def with_beside(given: Input, question: Question) -> Input:
    beside = dict(given.beside)
    if question.texts:
        beside["text"] = question.texts
    if question.similar_to is not None:
        if given.kind == "image":
            raise RefusalError(422, "similar_to is a text, and the input is an image")
        beside["similar_to"] = question.similar_to
    if beside and given.key:
        raise RefusalError(422, "an input that was read has its texts; send it again with others")
    if sum(map(len, question.texts)) + len(question.similar_to or "") > MOST_TEXT:
        raise RefusalError(413, f"the texts are longer than {MOST_TEXT} characters; send fewer")
    return replace(given, beside=beside)


def title_of(filename: str | None) -> str:
    """A file's name for people to read; it is never a path to anything."""
    name = PurePath((filename or "").replace("\\", "/")).name
    return shorten(printable(name), 80) or "image"
