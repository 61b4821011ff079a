"""``whyformer finetune``: teach a text classifier the classes of your data."""

from __future__ import annotations

import argparse
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
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    add_training_options(parser)
    parser.add_argument(
        "--device", help="cpu, cuda or mps (default: a GPU where there is one, else cpu)"
    )
    add_threads(parser)
    parser.add_argument("--offline", action="store_true", help="never download")
    parser.add_argument(
        "--allow-pickle", action="store_true", help="take pickled weights where there are no others"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no remarks")
    parser.set_defaults(run=run)


def add_training_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training (defaults: the paper's authors' for ERASER)")
    group.add_argument("--epochs", type=int, default=10, metavar="N", help="at most (default: 10)")
    group.add_argument("--batch-size", type=int, default=10, metavar="N", help="default: 10")
    group.add_argument(
        "--accumulate", type=int, default=1, metavar="N", help="batches to a step (default: 1)"
    )
    group.add_argument(
        "--learning-rate", type=float, default=1e-5, metavar="RATE", help="default: 1e-5, constant"
    )
    group.add_argument(
        "--longest",
        type=int,
        default=512,
        metavar="N",
        help="word pieces that are read of a text (default: 512)",
    )
    group.add_argument(
        "--cut",
        default="head",
        help="what is read of a text that is too long: head (default) or tail",
    )
    group.add_argument(
        "--patience",
        type=int,
        default=2,
        metavar="N",
        help="stop after N epochs without a better one (default: 2; 0: never)",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    group.add_argument("--limit", type=int, metavar="N", help="evenly chosen texts of each part")
    group.add_argument(
        "--save-every",
        type=int,
        metavar="STEPS",
        help="checkpoints inside an epoch too (default: after each epoch)",
    )


def run(options: argparse.Namespace) -> None:
    from whyformer.finetuning import finetune

    result = finetune(
        options.model,
        options.data,
        options.out,
        epochs=options.epochs,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        longest=options.longest,
        cut=options.cut,
        patience=options.patience,
        seed=options.seed,
        accumulate=options.accumulate,
        limit=options.limit,
        save_every=options.save_every,
        device=options.device,
        allow_pickle=options.allow_pickle,
        offline=options.offline,
        progress=not options.quiet,
    )
    if result is None:
        return
    before = "finished before, nothing to do: " if result.before else ""
    print(printable(f"{result.folder}: {before}{result.summary}"))
