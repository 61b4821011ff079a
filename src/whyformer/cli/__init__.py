"""The command line. Listing and help never load torch: each command imports what it needs."""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import whyformer.cli.benching as benching
import whyformer.cli.comparing as comparing
import whyformer.cli.evaluating as evaluating
import whyformer.cli.explaining as explaining
import whyformer.cli.finetuning as finetuning
import whyformer.cli.listing as listing
import whyformer.cli.serving as serving
import whyformer.cli.touring as touring
from whyformer import __version__
from whyformer.errors import UnknownNameError, WhyformerError
from whyformer.methods import methods_from
from whyformer.words import printable

EPILOG = """examples:
  whyformer demo                                     a first look: writes pictures and pages
  whyformer explain scene.png                        the embedded image model, to the terminal
  whyformer explain "a joyless film" --out why.html
  whyformer explain photo.jpg --model google/vit-base-patch16-224 --target "tabby" -o why.png
  whyformer compare photo.jpg --model ./my-model --target cat --target dog -o figure.png
  whyformer classes ./my-model --search cat
  whyformer serve                                    the same in the browser
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 2 for what the user can mend, 130 for Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            options = make_parser().parse_args(arguments)
            for file in getattr(options, "methods_from", []):
                methods_from(file)
            use_threads(getattr(options, "threads", None))
            return int(options.run(options) or 0)
        finally:
            sys.stdout.flush()
    except WhyformerError as error:
        print(f"whyformer: {printable(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            return 0
        print(f"whyformer: cannot write the output: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("whyformer: interrupted", file=sys.stderr)
        return 130


def use_threads(count: int | None) -> None:
    if count is not None:
        import torch

        torch.set_num_threads(count)


class Parser(argparse.ArgumentParser):
    """Takes options in full only: ``--method`` is none of those that begin like it.

    The parsers of the commands are of this class, too.
    """

    def __init__(self, **settings: Any) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(**settings, formatter_class=form, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """One sentence, as all other errors; the options are a page of their own."""
        raise UnknownNameError(f"{message}; see `{self.prog} --help`")


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="whyformer",
        description="Ask any Transformer why: how much every patch or word spoke for a class.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"whyformer {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (
        touring, explaining, comparing, serving, evaluating, benching, finetuning, listing,
    ):  # fmt: skip
        command.add_to(commands)
    return parser
