"""``{{ help: COMMAND }}`` in a page becomes what the command's ``--help`` prints."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

from whyformer.cli import make_parser

MARK = re.compile(r"^\{\{ help:(.*) \}\}$", re.MULTILINE)
COLUMNS = "92"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return MARK.sub(lambda found: f"```text\n{help_of(found[1].split())}```", markdown)


def help_of(words: list[str]) -> str:
    parser, before = make_parser(), os.environ.get("COLUMNS")
    for word in words:
        parser = commands_of(parser)[word]
    os.environ["COLUMNS"] = COLUMNS
    try:
        return parser.format_help()
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    [found] = [
        action.choices
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return found
