"""``whyformer explain``: one input, or many into a folder."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.cli.asked import (
    check_drawn,
    check_look,
    given_video,
    load_for,
    look_of,
    place_of,
    read_target,
)
from whyformer.cli.inputs import CliInput, beside, read_input
from whyformer.cli.many import explain_many, list_inputs
from whyformer.cli.options import (
    add_model_options,
    add_output_options,
    add_own_methods,
    add_question_options,
    count,
)
from whyformer.cli.writing import add_writing_options, as_prompt, check_writing, write_story
from whyformer.errors import InputError, TargetError
from whyformer.methods import BEST, DEFAULT_METHOD, get_method
from whyformer.methods.variants import SEPARATOR
from whyformer.models.catalogue import EMBEDDED
from whyformer.words import printable

if TYPE_CHECKING:
    from whyformer.explanation import Explanation
    from whyformer.models.pipeline import Pipeline
    from whyformer.models.recorded import Recorded
    from whyformer.render.sheet import Sheet

EPILOG = """examples:
  whyformer explain scene.png --target 3 --target 8
  whyformer explain "a joyless film" --target negative --target positive --out why.html
  whyformer explain review.txt --out why.tex
  whyformer explain photo.jpg --model ./my-vit -o figure.pdf --size 8.5cm --scale shared
  whyformer explain photo.jpg --model ./my-clip --text "a cat" --text "a dog" --out why.html
  whyformer explain a.jpg --model ./my-dinov2 --similar-to b.jpg --out why.html
  cat photo.jpg | whyformer explain - --model ./my-vit --json
  whyformer explain photos/ --model ./my-vit --out maps/       and maps/index.html; resumes
  whyformer explain --lines sentences.txt --out maps/ --format html
  whyformer explain datasets:imdb --split test --limit 500 --model ./my-bert --out maps/ --parquet
  whyformer explain photos.parquet --column image --model ./my-vit --out maps/
  whyformer explain speech.wav --model ./my-whisper --target Americans --out why.html
  whyformer explain "the house is small" --model ./my-t5 --out why.html
  whyformer explain clip.gif --model ./my-videomae --out why.gif
  whyformer explain "Once upon a time" --model ./stories15M --target " girl" --rather-than " boy"
  whyformer explain "Once upon a time" --model ./stories15M --generate 30 --out why.html
"""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="show what spoke for a class in an image or a text",
        description="Show what spoke for a class: in an image, a text, a folder of images, a data "
        "set, a text file, or standard input (-).",
        epilog=EPILOG,
    )
    parser.add_argument(
        "input", nargs="+", metavar="INPUT", help="file, folder, text, datasets:NAME, or -"
    )
    add_model_options(parser)
    add_question_options(parser)
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="see `whyformer methods` (default: transformer_attribution; for language models "
        "witness, for models that translate or write what they hear generic_attention)",
    )
    add_own_methods(parser)
    add_writing_options(parser)
    add_output_options(parser)
    many = parser.add_argument_group(
        "many inputs (--out is a folder, with index.html and results.csv)"
    )
    many.add_argument("--lines", action="store_true", help="every line of a file is a text")
    many.add_argument(
        "--format", metavar="ENDING", help="png (default), svg, pdf, html, json, npz, tex"
    )
    many.add_argument("--limit", type=count, metavar="N", help="only the first N inputs")
    many.add_argument("--split", metavar="NAME", help="of a data set that has several")
    many.add_argument("--column", metavar="NAME", help="of a data set: its images or texts")
    many.add_argument("--parquet", action="store_true", help="write results.parquet, too")
    many.add_argument("--overwrite", action="store_true", help="do finished inputs again")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    get_method(options.method or DEFAULT_METHOD)
    writes = options.generate is not None
    if writes:
        check_writing(options)
    video = given_video(options)
    inputs = list_inputs(options) if video is None else None
    if inputs is not None and writes:
        raise InputError("--generate goes with one prompt; give one text, or one file")
    if inputs is not None:
        return explain_many(inputs, options)
    if options.parquet:
        raise InputError("--parquet is for many inputs, with a folder for --out")
    if options.limit is not None:
        raise InputError("--limit is for many inputs")
    if options.format is not None:
        raise InputError("--format is for many inputs; for one, the ending of --out says it")
    given = video or read_input(options.input[0], options)
    check_look(options, given.kind)
    check_output(options, given, writes)
    why = load_for(options, given.kind)
    if writes:
        write_story(why, given, options)
    else:
        present(explain_one(why, given, options), options)
    return 0


def explain_one(why: Pipeline, given: CliInput, options: argparse.Namespace) -> Sheet:
    content = as_prompt(why, given, options)
    recorded = why.record(content, progress=not options.quiet, **beside(why, options))
    asked, named = question(recorded, options)
    explanation = recorded.explain(*asked, **named)
    sheet = lay_out(explanation, why, given, options)
    if (options.method or "").partition(SEPARATOR)[0] == BEST:
        sheet.notes.append(f"{BEST} is {explanation.method}, the method that measured best")
    return sheet


def question(recorded: Recorded, options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    """What a recorded input is asked, as ``explain`` takes it."""
    method = options.method or recorded.pipeline.usual
    check_target(recorded, method, options)
    named = place_of(options, recorded) | get_method(method).progress(not options.quiet)
    asked = [read_target(options, recorded), method, options.preset]
    return asked, {"precision": options.precision, **named}


def check_target(recorded: Recorded, name: str, options: argparse.Namespace) -> None:
    method = get_method(name)
    if options.target and not recorded.looks_at_target(method):
        raise TargetError(
            f"{method.name} gives the same map for every class; leave --target out, or choose a "
            "method that is class-specific (see `whyformer methods`)"
        )


def lay_out(
    explanations: Explanation | list[Explanation],
    why: Pipeline,
    given: CliInput,
    options: argparse.Namespace,
) -> Sheet:
    """The sheet of an input; says so where a model was chosen that nobody asked for."""
    from whyformer.explanation import Explanation
    from whyformer.render.sheets import make_sheet

    sheet = make_sheet(explanations, title=given.title, model=why.name)
    first = explanations if isinstance(explanations, Explanation) else explanations[0]
    if why.kind == "language" and first.target is not None and not options.target:
        word = sheet.asked[0].name
        sheet.notes.append(f"no --target was given: {word} is the likeliest word here")
    if options.model is None and not options.quiet:
        chosen = EMBEDDED[why.name]
        sheet.notes.append(f"no --model was given: {why.name} is {chosen.summary}, and no more")
    return sheet


def check_output(options: argparse.Namespace, given: CliInput, writes: bool = False) -> None:
    """Complain about an output that cannot be before the work is done."""
    out = options.out
    if out is None:
        check_drawn(options, ".json" if options.json else None)
        return
    from whyformer.files import FOLDER, check_writable, what_is
    from whyformer.render.saving import panel_path, writer
    from whyformer.render.story import story_writer

    if not out.strip():
        raise InputError("--out is empty; give a file such as why.png")
    path = Path(out)
    check_writable(path)
    if what_is(path) == FOLDER:
        raise InputError(f"{out} is a folder; one input goes to a file such as {path / 'why.png'}")
    (story_writer if writes else writer)(path)
    check_drawn(options, path.suffix.lower())
    for written in (path, panel_path(path)) if path.suffix == ".tex" else (path,):
        if what_is(written) and what_is(Path(given.name)) and written.samefile(given.name):
            raise InputError(f"{written} is the input itself; choose another name for the result")


def present(sheet: Sheet, options: argparse.Namespace) -> None:
    """To the file that was asked for, and to the screen what belongs there."""
    if options.out:
        from whyformer.render.saving import save_sheet

        path = save_sheet(sheet, options.out, pieces=options.pieces, look=look_of(options))
        if not options.json and not options.quiet:
            found = ", ".join(f"{score.name} {score.number}" for score in sheet.classes[:3])
            for line in (f"{path}  ({found})", *(f"note: {note}" for note in sheet.notes)):
                print(printable(line))
    if options.json:
        import json

        from whyformer.render.document import document

        print(json.dumps(document(sheet), ensure_ascii=False))
    elif not options.out:
        from whyformer.render.terminal import has_colour, to_terminal

        width = shutil.get_terminal_size().columns
        look = look_of(options)
        print(
            to_terminal(sheet, colour=has_colour(), width=width, pieces=options.pieces, look=look)
        )
