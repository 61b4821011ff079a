"""``whyformer methods``, ``models`` and ``classes``: what there is."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whyformer.cli.asked import load_named
from whyformer.cli.options import add_model_options, add_own_methods
from whyformer.errors import InputError
from whyformer.files import FILE, what_is
from whyformer.methods import BEST, BEST_METHOD, DEFAULT_METHOD, absent_methods, methods
from whyformer.models.catalogue import EMBEDDED
from whyformer.words import printable


def add_to(commands: Any) -> None:
    listed = commands.add_parser(
        "methods",
        help="list the methods",
        epilog="examples:\n  whyformer methods --json\n  whyformer methods --methods-from mine.py",
    )
    add_own_methods(listed)
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(run=list_methods)

    embedded = commands.add_parser(
        "models",
        help="list the embedded models and what else loads",
        epilog="example:\n  whyformer models --json",
    )
    embedded.add_argument("--json", action="store_true", help="print JSON")
    embedded.set_defaults(run=list_models)

    classes = commands.add_parser(
        "classes",
        help="list a model's classes",
        epilog="example:\n  whyformer classes google/vit-base-patch16-224 --search cat",
    )
    add_model_options(classes)
    classes.add_argument("name", nargs="?", metavar="MODEL", help="instead of --model")
    classes.add_argument("--search", metavar="TEXT", help="only classes whose label holds TEXT")
    classes.add_argument("--json", action="store_true", help="print JSON")
    classes.set_defaults(run=list_classes)


def list_methods(options: argparse.Namespace) -> None:
    absent = absent_methods()
    listed = sorted([*methods().values(), *absent.values()], key=lambda method: method.name)
    if options.json:
        entries = [
            {
                "name": m.name,
                "class_specific": m.class_specific,
                "summary": m.summary,
                "install": f"whyformer[{m.needs}]" if m.name in absent else None,
                **(asdict(m.facts) if m.facts is not None else {}),
            }
            for m in listed
        ]
        print(json.dumps(entries, indent=1))
        return
    width = max(len(method.name) for method in listed)
    for method in listed:
        scope = "" if method.class_specific else "  [same map for every class]"
        scope += f"  [{BEST}: it measured best]" if method.name == BEST_METHOD else ""
        scope += "  [the default]" if method.name == DEFAULT_METHOD else ""
        scope += f"  [pip install 'whyformer[{method.needs}]']" if method.name in absent else ""
        print(f"{method.name:<{width}}  {method.summary}{scope}")


def list_models(options: argparse.Namespace) -> None:
    if options.json:
        entries = [
            {"name": m.name, "reads": m.kind, "summary": m.summary} for m in EMBEDDED.values()
        ]
        print(json.dumps(entries, indent=1))
        return
    for model in EMBEDDED.values():
        print(f"{model.name:<13}  {model.summary}")
    print(
        "\nAlso: a directory with config.json and model.safetensors, or a hub id (owner/name):\n"
        "classifiers of images, texts, sounds and videos, detectors, language models, models that\n"
        "translate or write what they hear, two towers such as CLIP, taggers, and others; and\n"
        "timm/NAME (pip install 'whyformer[vision]')."
    )


def written_labels(name: str) -> list[str] | None:
    """The labels that a directory's configuration holds: no weights need be read for them."""
    from whyformer.models.kinds import kind_of, read_config

    path = EMBEDDED[name].path if name in EMBEDDED else Path(os.path.expanduser(name))
    if what_is(path / "config.json") != FILE:
        return None
    config = read_config(path, name)
    labels = config.get("id2label")
    if not isinstance(labels, dict) or not all(key.isdecimal() for key in labels):
        return None
    if not kind_of(config, name).labelled:
        return None
    return [str(labels[key]) for key in sorted(labels, key=int)]


def list_classes(options: argparse.Namespace) -> None:
    name = options.name or options.model
    if name is None:
        raise InputError("which model? give its name: whyformer classes MODEL")
    labels = written_labels(name) or load_named(name, options).labels
    if labels is None:
        raise InputError(f"{name} has no names for its classes; ask for them by index")
    wanted = (options.search or "").casefold()
    found = [(i, label) for i, label in enumerate(labels) if wanted in label.casefold()]
    if options.json:
        print(json.dumps([{"index": i, "label": label} for i, label in found], indent=1))
        return
    if not found:
        raise InputError(f"no class of {name} holds {options.search!r}")
    for i, label in found:
        print(printable(f"{i:>5}  {label}"))
