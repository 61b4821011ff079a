"""``whyformer explain --generate``: let a language model write, and explain every word."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from whyformer.cli.inputs import CliInput
from whyformer.errors import InputError
from whyformer.words import printable

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline


def add_writing_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("language models")
    group.add_argument(
        "--generate",
        type=int,
        metavar="N",
        help="let the model write N tokens, and explain each of them",
    )
    group.add_argument(
        "--chat", action="store_true", help="the text is a message to a model that chats"
    )


def as_prompt(why: Pipeline, given: CliInput, options: argparse.Namespace) -> Any:
    """What the model reads: the input, or a chat that it begins."""
    if not options.chat:
        return given.content
    if why.kind != "language" or not isinstance(given.content, str):
        raise InputError(f"--chat goes with a text and a language model, which {why.name} is not")
    return [{"role": "user", "content": given.content}]


def check_writing(options: argparse.Namespace) -> None:
    """Refuse questions that do not go with writing, before anything is loaded."""
    asked = {
        "--target": options.target,
        "--rather-than": options.rather_than,
        "--position": options.position,
        "--pair": options.pair,
    }
    for name, given in asked.items():
        if given is not None:
            raise InputError(
                f"--generate explains every word that the model writes; leave {name} out, or "
                "leave --generate out to ask about one word"
            )


def write_story(why: Pipeline, given: CliInput, options: argparse.Namespace) -> None:
    from whyformer.models.language import LanguagePipeline
    from whyformer.render.story import story_document, story_text
    from whyformer.render.terminal import has_colour

    if not isinstance(why, LanguagePipeline):
        raise InputError(f"--generate goes with a language model, which {why.name} is not")
    written = why.generate(
        as_prompt(why, given, options),
        options.generate,
        options.method or why.usual,
        options.preset,
        progress=not options.quiet,
    )
    if options.out:
        path = written.save(options.out, title=given.title)
        if not options.json and not options.quiet:
            for line in (f"{path}  ({written.text})", *(f"note: {n}" for n in written.notes)):
                print(printable(line))
    if options.json:
        print(json.dumps(story_document(written, given.title), ensure_ascii=False))
    elif not options.out:
        print(story_text(written, colour=has_colour()))
