"""``whyformer serve``: the web page."""

from __future__ import annotations

import argparse
from typing import Any

from whyformer.cli.asked import load_named
from whyformer.cli.options import add_model_options, add_own_methods, count
from whyformer.errors import ModelError
from whyformer.models.catalogue import EMBEDDED

EPILOG = """examples:
  whyformer serve                                              the embedded models
  whyformer serve --model ./my-vit --model demo-text --port 8080
  whyformer serve --host 0.0.0.0 --allow-host gpubox.lab.example    others may use it: no password
"""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "serve",
        help="the web page: ask in the browser",
        description="Ask in the browser: drop a picture, a sound or a video, type a text, click a "
        "class, compare methods. Works offline, on this machine only unless --host says otherwise.",
        epilog=EPILOG,
    )
    add_model_options(parser, several=True)
    add_own_methods(parser)
    group = parser.add_argument_group("server")
    group.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    group.add_argument(
        "--port", type=int, default=8000, help="default: 8000; 0 takes any that is free"
    )
    group.add_argument(
        "--keep",
        type=count,
        default=4,
        metavar="N",
        help="how many inputs stay in memory for further questions (default: 4)",
    )
    group.add_argument(
        "--memory",
        type=count,
        default=384,
        metavar="MB",
        help="how much memory these may take; the newest stays in any case (default: 384)",
    )
    group.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that the server is reached by, such as gpubox.lab.example; give it once for "
        "each name",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    try:
        from whyformer.app.server import listen, serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("whyformer"):
            raise
        raise ModelError(f"the page needs {error.name}: pip install 'whyformer[serve]'") from error
    names = options.model or list(EMBEDDED)
    with listen(options.host, options.port) as listening:
        models = [load_named(name, options) for name in names]
        serve(
            models,
            listening,
            options.host,
            keep=options.keep,
            memory=options.memory,
            names=options.allow_host,
        )
