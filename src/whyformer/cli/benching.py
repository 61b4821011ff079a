"""``whyformer bench``: what explanations cost on this machine."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from whyformer.cli.asked import chosen_methods, load_named
from whyformer.cli.options import add_methods_option, add_model_options, add_rules_options, count
from whyformer.methods import default_methods

EPILOG = """examples:
  whyformer bench                                               the embedded image model
  whyformer bench ./my-vit --batch 8
  whyformer bench ./my-bert --tokens 512 --methods witness,transformer_attribution
  whyformer bench demo-writer --tokens 64
  whyformer bench ./my-vit --precision fast --threads 1 --json
"""


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "bench",
        help="tell what explanations cost on this machine",
        description="What explanations cost on this machine, method by method: the time in "
        "forwards of the model, samples a second, and the memory of all tensors at the peak, "
        "beside the weights. Forward and explanation take turns; medians are told.",
        epilog=EPILOG,
    )
    parser.add_argument("name", nargs="?", metavar="MODEL", help="instead of --model")
    add_model_options(parser)
    add_methods_option(parser)
    parser.add_argument("--batch", type=count, default=1, help="samples at once (default: 1)")
    parser.add_argument(
        "--tokens", type=count, default=128, help="pieces of a text or prompt (default: 128)"
    )
    parser.add_argument(
        "--turns", type=count, default=5, help="explanations that are timed (default: 5)"
    )
    add_rules_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    chosen = chosen_methods(options) or default_methods()
    name = options.name or options.model or "demo-vision"

    import torch
    from tqdm.auto import tqdm

    from whyformer.engine.precision import is_fast
    from whyformer.engine.rules import get_preset
    from whyformer.evaluation.run.costs import costs, example

    get_preset(options.preset), is_fast(options.precision)
    why = load_named(name, options)
    inputs = example(why, options.batch, options.tokens)
    asked = {"turns": options.turns, "preset": options.preset, "precision": options.precision}
    found = list(
        tqdm(
            costs(why, chosen, inputs, **asked),
            total=len(chosen),
            desc="timing",
            unit="method",
            file=sys.stderr,
            disable=options.quiet,
        )
    )
    device = str(next(why.model.parameters()).device)
    threads = torch.get_num_threads()
    if options.json:
        facts = {"model": why.name, "device": device, "threads": threads, "batch": options.batch}
        entries = [vars(cost) for cost in found]
        print(json.dumps({**facts, "precision": options.precision, "methods": entries}, indent=1))
        return
    forward = min(cost.forward_seconds for cost in found)
    print(
        f"{why.name}: a forward of {options.batch} takes {forward * 1000:.0f} ms on {device}, "
        f"{threads} thread{'s' if threads > 1 else ''}"
    )
    width = max(len(cost.method) for cost in found)
    print(f"\n{'method':<{width}}  forwards  samples/s  peak MiB")
    for cost in sorted(found, key=lambda cost: cost.forwards):
        print(
            f"{cost.method:<{width}}  {cost.forwards:8.1f}  {cost.samples_per_second:9.2f}  "
            f"{cost.peak_mib:8.0f}"
        )
