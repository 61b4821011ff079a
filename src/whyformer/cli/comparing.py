"""``whyformer compare``: all methods side by side, as the paper's figures."""

from __future__ import annotations

import argparse
from typing import Any

from whyformer.cli.asked import check_look, chosen_methods, load_for, place_of, read_target
from whyformer.cli.explaining import check_output, lay_out, present
from whyformer.cli.inputs import beside, read_input
from whyformer.cli.options import (
    add_methods_option,
    add_model_options,
    add_output_options,
    add_question_options,
)
from whyformer.methods import default_methods, get_method

EPILOG = """examples:
  whyformer compare scene.png --target 3 --target 8 --out figure.png
  whyformer compare "a joyless film" --out methods.html
  whyformer compare photo.jpg --model ./my-vit --methods rollout,gradcam -o figure.pdf
  whyformer compare scene.png --methods generic_attention,generic_attention:gradient=libra
  whyformer compare scene.png --methods-from mine.py
"""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "compare",
        help="all methods side by side: one row a class, one column a method",
        description="All methods side by side: one row a class, one column a method.",
        epilog=EPILOG,
    )
    parser.add_argument("input", metavar="INPUT", help="image file, text, text file, or -")
    add_model_options(parser)
    add_question_options(parser)
    add_methods_option(parser)
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    chosen = chosen_methods(options)
    given = read_input(options.input, options)
    check_look(options, given.kind)
    check_output(options, given)
    why = load_for(options, given.kind)
    recorded = why.record(given.content, progress=not options.quiet, **beside(why, options))
    target, place = read_target(options, recorded), place_of(options, recorded)
    explanations = [
        explanation
        for name in chosen or default_methods()
        for explanation in recorded.compare(
            target,
            [name],
            options.preset,
            precision=options.precision,
            **place,
            **get_method(name).progress(not options.quiet),
        )
    ]
    present(lay_out(explanations, why, given, options), options)
