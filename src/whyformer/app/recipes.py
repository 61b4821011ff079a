"""The question of a page as Python code and as a command, to be copied."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from whyformer.app.questions import (
    MOST_METHODS,
    MOST_TARGETS,
    MOST_TEXT,
    MOST_TEXTS,
    MOST_WRITTEN,
    Edge,
    Index,
    Name,
    Place,
    Text,
)
from whyformer.engine.rules import DEFAULT_PRESET
from whyformer.methods import DEFAULT_METHOD, default_methods, get_method
from whyformer.targets import from_word


class RecipeQuestion(BaseModel):
    """What is shown: ``content`` is a text, or a file's name, and so is ``similar_to``."""

    model_config = ConfigDict(extra="forbid")

    model: Name
    content: str = Field(max_length=MOST_TEXT)
    pair: str | None = Field(None, max_length=MOST_TEXT)
    texts: list[Text] = Field([], max_length=MOST_TEXTS)
    similar_to: str | None = Field(None, max_length=MOST_TEXT)
    targets: list[Index] = Field([], max_length=MOST_TARGETS)
    rather_than: Index | Name | None = None
    position: Place | Name | None = None
    edge: Edge | None = None
    region: list[float] = Field([], max_length=4)
    write: int | None = Field(None, ge=1, le=MOST_WRITTEN)
    methods: list[Name] = Field(
        [], max_length=MOST_METHODS, description="by default the model's own"
    )
    preset: Name = DEFAULT_PRESET


class Recipe(BaseModel):
    """Both give what the page shows."""

    python: str
    command: str


def recipe(
    question: RecipeQuestion, labels: Sequence[str] | None, usual: str = DEFAULT_METHOD
) -> Recipe:
    """``usual`` is the method that answers where none is named."""
    names = list(dict.fromkeys(question.methods or [usual]))
    labels = question.texts or labels
    specific = bool(question.texts) or any(get_method(name).class_specific for name in names)
    targets = question.targets if specific else []
    return Recipe(
        python=python_code(question, names, targets, labels, usual),
        command=command(question, names, [spelled(index, labels) for index in targets], usual),
    )


def spelled(index: int, labels: Sequence[str] | None) -> str:
    """A class as the command line reads it: its label, or its number where labels repeat."""
    if labels is None or not 0 <= index < len(labels) or labels.count(labels[index]) > 1:
        return str(index)
    return labels[index]


def python_code(
    question: RecipeQuestion,
    names: list[str],
    targets: list[int],
    labels: Sequence[str] | None,
    usual: str,
) -> str:
    pair = question.pair
    given = [repr(question.content if pair is None else (question.content, pair))]
    if question.texts:
        given.append(f"text={question.texts}")
    if question.similar_to is not None:
        given.append(f"similar_to={question.similar_to!r}")
    asked = [repr(target) for target in targets]
    if question.rather_than is not None:
        other = question.rather_than
        other = from_word(other, labels) if isinstance(other, str) else other
        asked = [f"whyformer.contrast({target}, {other!r})" for target in asked or ["None"]]
    if asked:
        given.append(f"target={asked[0]}" if len(asked) == 1 else f"target=[[{', '.join(asked)}]]")
    further = {
        "position": question.position,
        "edge": question.edge,
        "region": tuple(question.region) or None,
        "tokens": question.write,
        "preset": None if question.preset == DEFAULT_PRESET else question.preset,
    }
    given += [f"{name}={value!r}" for name, value in further.items() if value is not None]
    own = "".join(f"whyformer.methods_from({file!r})\n" for file in files_of(names))
    load = f"{own}why = whyformer.load({question.model!r})\n"
    if len(names) == 1:
        given += [f"method={names[0]!r}"] if names[0] != usual else []
        name, call = "explanation", "why"
        if question.write is not None:
            name, call = "written", "why.generate"
        ask = f'{name} = {call}({", ".join(given)})\n{name}.save("why.html")\n'
        return f"import whyformer\n\n{load}{ask}"
    given += [f"methods={names}"] if names != default_methods() else []
    ask = f'explanations = why.compare({", ".join(given)})\nsave(explanations, "why.html")\n'
    return f"import whyformer\nfrom whyformer.render import save\n\n{load}{ask}"


def command(question: RecipeQuestion, names: list[str], targets: list[str], usual: str) -> str:
    several = len(names) > 1
    words = ["whyformer", "compare" if several else "explain", f"--model={question.model}"]
    words += [f"--text={text}" for text in question.texts]
    words += [f"--target={target}" for target in targets]
    named = {
        "pair": question.pair,
        "similar-to": question.similar_to,
        "rather-than": question.rather_than,
        "position": question.position,
        "edge": question.edge,
        "region": ",".join(f"{side:g}" for side in question.region) or None,
        "generate": question.write,
    }
    words += [f"--{name}={value}" for name, value in named.items() if value is not None]
    if names not in ([usual], default_methods()):
        words += [f"--method={name}" for name in names]
    if question.preset != DEFAULT_PRESET:
        words.append(f"--preset={question.preset}")
    words += [f"--methods-from={file}" for file in files_of(names)]
    words += ["--out=why.html", "--", question.content]
    return " ".join(shlex.quote(word) for word in words)


def files_of(names: list[str]) -> list[str]:
    """The files of one's own that the methods came from."""
    files = (get_method(name).file for name in names)
    return list(dict.fromkeys(str(file) for file in files if file is not None))
