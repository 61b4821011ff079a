"""What can be asked: the bodies of the API's requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from whyformer.engine import PRESETS
from whyformer.engine.rules import DEFAULT_PRESET
from whyformer.methods import DEFAULT_METHOD

MOST_TARGETS = 8
MOST_METHODS = 32
MOST_ERASED = 10_000
#: texts that an image is compared with
MOST_TEXTS = 32
#: characters; a longer text takes the model minutes
MOST_TEXT = 100_000

#: words that a model writes at once, at most
MOST_WRITTEN = 200

#: what a form calls its file; the second is its older name
FILES = ("file", "image")
#: what a form does not hold, because it holds a file
WITHOUT_FILE = ("text", "pair", "example", "input", "write")
#: what a form may hold more than once
LISTS = ("targets", "methods", "texts", "erased", "region")

Name = Annotated[str, Field(max_length=300)]
Text = Annotated[str, Field(max_length=2000)]
Index = Annotated[int, Field(ge=0, lt=2**31)]
Edge = Literal["left", "top", "right", "bottom"]
Place = Annotated[int, Field(gt=-(2**31), lt=2**31)]


class Question(BaseModel):
    """Why a model decided as it did: about a text, an example, or an input that it has read.

    An image, a sound or a video comes as a file, in a form with the same fields.
    """

    model_config = ConfigDict(extra="forbid")

    model: Name | None = Field(
        None, description="one of /models; by default the first that reads such an input"
    )
    text: str | None = Field(None, description=f"at most {MOST_TEXT} characters")
    pair: str | None = Field(None, description="a second text, for models that read pairs")
    texts: Annotated[list[Text], Field(max_length=MOST_TEXTS)] = Field(
        [], description="what an image is compared with, or asked, by models that read both"
    )
    similar_to: str | None = Field(
        None,
        description="why are the two similar? for models that tell so: a text, in a form a file",
    )
    example: Name | None = Field(None, description="the name of one of /examples")
    input: Name | None = Field(None, description="the `input` of an earlier answer, not sent again")
    targets: Annotated[list[Index | Name], Field(max_length=MOST_TARGETS)] = Field(
        [], description="classes: indices or labels; by default what the model predicts"
    )
    runner_up: bool = Field(
        False, description="without targets: the second most probable class as well"
    )
    rather_than: Index | Name | None = Field(
        None, description="a class: why each target rather than that one?"
    )
    position: Place | Name | None = Field(
        None,
        description="where a model is asked that answers at many places: a number, or a word",
    )
    edge: Edge | None = Field(None, description="an edge of a detector's box, not its class")
    region: list[float] = Field(
        [], max_length=4, description="a segmentation's: left, top, right, bottom, from 0 to 1"
    )
    methods: Annotated[list[Name], Field(max_length=MOST_METHODS)] = Field(
        [], description=f"of /methods; by default the model's own, mostly {DEFAULT_METHOD}"
    )
    preset: Name = Field(DEFAULT_PRESET, description=", ".join(PRESETS))


class WritingQuestion(Question):
    """One that may ask for a text and for every word of it."""

    write: Annotated[int, Field(ge=1, le=MOST_WRITTEN)] | None = Field(
        None, description="let a language model write so many tokens, and explain each of them"
    )


class ViewQuestion(WritingQuestion):
    """``POST /explain``."""

    detail: bool = Field(
        False, description="also the picture, and every token's own row, as the viewer needs them"
    )


class FileQuestion(WritingQuestion):
    """``POST /save``."""

    format: Literal["png", "html", "json", "npz", "svg", "gif"] = Field("png")
    opacity: float = Field(0.85, ge=0, le=1, description="of the map over the image")
    smooth: bool = Field(True, description="a smooth map; otherwise patches")
    pieces: bool = Field(False, description="a text's word pieces, not its words")
    cropped: bool = Field(
        False, description="only what the model saw of a photo, without the rest around it"
    )


class BlockQuestion(Question):
    """``POST /blocks``."""

    block: int = Field(0, ge=0, le=10_000, description="from the input side")
    head: int | None = Field(
        None, ge=0, le=10_000, description="by default the mean over all heads"
    )


class HeadQuestion(Question):
    """``POST /heads``."""

    map: Literal["attention", "gradient", "relevance", "product"] = Field("attention")


class EraseQuestion(Question):
    """``POST /erase``."""

    erased: Annotated[list[Index], Field(max_length=MOST_ERASED)] = Field(
        [], description="patches, counted row by row from 0, or words, from 0"
    )


def json_body(question: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of a request in JSON."""
    content = {"application/json": {"schema": question.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


def body(question: type[Question]) -> dict[str, Any]:
    """The OpenAPI description of a request: JSON, or a form with a file."""
    described = json_body(question)
    content = described["requestBody"]["content"]
    schema = content["application/json"]["schema"]
    fields = {k: _of_form(v) for k, v in schema["properties"].items() if k not in WITHOUT_FILE}
    file = {"type": "string", "format": "binary"}
    told = "an image, a sound or an animation; its older name, image, is read as well"
    fields["similar_to"] = {**file, "description": fields["similar_to"]["description"]}
    form = {
        "type": "object",
        "properties": {"file": {**file, "description": told}, **fields},
        "required": ["file"],
        "additionalProperties": False,
    }
    content["multipart/form-data"] = {"schema": form}
    return described


def _of_form(field: dict[str, Any]) -> dict[str, Any]:
    """A form's fields are words: an item that may be one is one there, and nothing is null."""
    items = field.get("items", {})
    most = [option.get("maxLength") for option in items.get("anyOf", [items])]
    if any(most):
        return {**field, "items": {"type": "string", "maxLength": max(filter(None, most))}}
    options = [option for option in field.get("anyOf", []) if option != {"type": "null"}]
    rest = {k: v for k, v in field.items() if k not in ("anyOf", "default")}
    words = [option for option in options if option.get("type") == "string"]
    return {**rest, **(words or options)[0]} if options else field
