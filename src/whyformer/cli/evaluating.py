"""``whyformer evaluate``: which method explains a model best."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from whyformer.cli.options import add_model_options, load_for
from whyformer.errors import InputError
from whyformer.methods import get_method, methods

EPILOG = """examples:
  whyformer evaluate pointing                           embedded model and scenes, offline
  whyformer evaluate segmentation --model ./my-vit --data pets/ --out runs/pets
  whyformer evaluate perturbation --model ./my-vit --data imagenet/val --limit 1000 --out runs/in
  whyformer evaluate rationales --model ./my-bert --data movies/ --out runs/movies
  torchrun --nproc-per-node 4 -m whyformer evaluate perturbation --data ... --out runs/in

data: a folder for each class (named by ImageNet's number, by index or by label), or a folder with
index.jsonl (lines with "image", "mask", "label"; segmentation needs the masks); for rationales an
ERASER directory. Pointing needs a mask for each class, which the embedded scenes have. A killed
run goes on where it was.
"""
BENCHMARKS = ("perturbation", "segmentation", "rationales", "pointing")


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="measure which method explains a model best",
        description="Measure which method explains a model best.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benchmark", choices=BENCHMARKS)
    add_model_options(parser)
    parser.add_argument("--data", metavar="FOLDER", help="default: embedded scenes, or reviews")
    parser.add_argument("--limit", type=int, metavar="N", help="evenly chosen samples")
    parser.add_argument(
        "--methods",
        metavar="A,B,...",
        help="or all (default: all but attention_flow, which is slow)",
    )
    parser.add_argument("--preset", default="stable", metavar="NAME")
    parser.add_argument("--split", default="test", help="of an ERASER directory (default: test)")
    parser.add_argument(
        "--cut",
        default="head",
        help="what is read of a document that is too long: head (default), tail or windows",
    )
    parser.add_argument(
        "-o", "--out", metavar="FOLDER", help="default: runs/BENCHMARK-MODEL in this folder"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no remarks")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    chosen = None
    if options.methods:
        listed = list(methods()) if options.methods == "all" else options.methods.split(",")
        chosen = tuple(get_method(name).name for name in listed)
    if options.limit is not None and options.limit < 1:
        raise InputError(f"--limit {options.limit}: expected at least 1")
    why = load_for(options, "text" if options.benchmark == "rationales" else "image")

    from whyformer.evaluation import evaluate
    from whyformer.models.pipeline import default_methods

    folder = Path(options.out or f"runs/{options.benchmark}-{Path(why.name).name}")
    result = evaluate(
        options.benchmark,
        why,
        options.data,
        methods=chosen or tuple(default_methods()),
        preset=options.preset,
        limit=options.limit,
        split=options.split,
        cut=options.cut,
        out=folder,
        progress=not options.quiet,
    )
    if result is None:
        return
    print(f"{result.summary}\n\n{result.table.text()}")
    if not options.quiet:
        print(f"\n± half the 95 % interval, * best in its column; records and tables in {folder}")
