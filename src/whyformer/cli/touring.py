"""``whyformer demo``: a first look, offline."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="a first look with the embedded models, offline",
        description="Explain a scene of two digits, a review, a story, boxes and captions with the "
        "embedded models, offline.",
        epilog="example:\n  whyformer demo --out demo",
    )
    parser.add_argument("-o", "--out", default="demo", metavar="FOLDER", help="default: demo")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from whyformer.demo.tour import tour

    tour(Path(options.out))
