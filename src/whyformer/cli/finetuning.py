"""``whyformer finetune``: teach a text classifier the classes of your data."""

from __future__ import annotations

import argparse
from inspect import signature
from typing import Any

from whyformer.cli.options import add_threads
from whyformer.words import printable

EPILOG = """examples:
  whyformer finetune --model ./bert-base-uncased --data movies/ --out runs/movies-bert
  whyformer finetune --model ./my-encoder --data sst2/ --out runs/sst2 --batch-size 32 --epochs 3
  whyformer finetune --model demo-text --data reviews.tsv --out runs/mine --learning-rate 1e-4
  torchrun --nproc-per-node 4 -m whyformer finetune --model ... --data ... --out runs/big

data: an ERASER directory (train.jsonl, val.jsonl, docs/), a folder with train.tsv and dev.tsv or
val.tsv, or one TSV file, of which a tenth is held out for validation. A TSV has lines of sentence
TAB label. A test.jsonl or test.tsv is measured in the end. The epoch with the best validation
accuracy is kept. A killed run goes on with the same command. Then ask the model:
  whyformer explain "a joyless film" --model runs/mine
"""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "finetune",
        help="teach a text classifier the classes of your data",
        description="Teach a text classifier, or an encoder without a head, the classes of your "
        "data.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "-m", "--model", required=True, help="directory, hub id, or demo-text; never changed"
    )
    parser.add_argument(
        "--data", required=True, metavar="DATA", help="ERASER directory, folder of TSVs, or TSV"
    )
    parser.add_argument(
        "-o", "--out", required=True, metavar="FOLDER", help="new or empty: gets the model"
    )
    group = parser.add_argument_group("training (defaults: the paper's authors' for ERASER)")
    for name, kind, default, metavar, said in TRAINING:
        group.add_argument(name, type=kind, default=default, metavar=metavar, help=said)
    parser.add_argument(
        "--device",
        help="cpu, cuda or mps (default: a GPU where there is one, else cpu; training takes long, "
        "and other commands take the cpu)",
    )
    add_threads(parser)
    parser.add_argument("--offline", action="store_true", help="never download")
    parser.add_argument(
        "--allow-pickle", action="store_true", help="take pickled weights where there are no others"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no remarks")
    parser.set_defaults(run=run)


TRAINING: tuple[tuple[str, type, Any, str | None, str], ...] = (
    ("--epochs", int, 10, "N", "at most (default: 10)"),
    ("--batch-size", int, 10, "N", "default: 10"),
    ("--accumulate", int, 1, "N", "batches to a step (default: 1)"),
    ("--learning-rate", float, 1e-5, "RATE", "default: 1e-5, constant"),
    ("--longest", int, 512, "N", "word pieces that are read of a text (default: 512)"),
    ("--cut", str, "head", None, "what is read of a text that is too long: head (default) or tail"),
    ("--patience", int, 2, "N", "stop after N epochs without a better one (default: 2; 0: never)"),
    ("--seed", int, 0, "N", "default: 0"),
    ("--limit", int, None, "N", "evenly chosen texts of each part"),
    ("--save-every", int, None, "STEPS", "checkpoints inside an epoch too, each so many steps"),
)


def run(options: argparse.Namespace) -> None:
    from whyformer.finetuning import finetune

    given = vars(options)
    asked = {name: given[name] for name in signature(finetune).parameters if name in given}
    result = finetune(**asked, progress=not options.quiet)
    if result is None:
        return
    before = "finished before, nothing to do: " if result.before else ""
    print(printable(f"{result.folder}: {before}{result.summary}"))
