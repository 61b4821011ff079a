"""``whyformer evaluate``: which method explains a model best."""

from __future__ import annotations

import argparse
import sys
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.cli.asked import chosen_methods, load_for, load_named
from whyformer.cli.options import add_methods_option, add_model_options
from whyformer.errors import InputError

if TYPE_CHECKING:
    from whyformer.evaluation import Result
    from whyformer.models.pipeline import Pipeline

EPILOG = """benchmarks:
  perturbation   accuracy while pixels are removed by their relevance; deletion and insertion
  segmentation   the map's foreground against a mask
  rationales     the words found against those that people marked (token-F1)
  pointing       whose pixels get the relevance when one of several objects is asked about
  grid           four photos of four classes in one image: which cell answers for its class
  saco           do more salient pixels matter more to the prediction, pair by pair
  sanity         random weights, a little noise, and whether the relevance adds up
  erasure        the prediction without the words found, and with them alone
  writing        is the word that decides the next one among the most relevant
  boxes          how much of the relevance lies in the box of what a detector found
  captions       does the digit that a text names get the relevance, and the words that name it
  all            the paper's three: perturbation, segmentation, rationales

examples:
  whyformer evaluate all                                embedded models and data, offline
  whyformer evaluate segmentation --model ./my-vit --data pets/ --out runs/pets
  whyformer evaluate segmentation --model ./my-vit --data gtsegs_ijcv.mat --out runs/gtsegs
  whyformer evaluate perturbation --model ./my-vit --data imagenet/val --limit 1000 --out runs/in
  whyformer evaluate rationales --model ./my-bert --data movies/ --out runs/movies
  whyformer evaluate erasure --model ./my-bert --data datasets:imdb --limit 500 --out runs/imdb
  whyformer evaluate grid --model ./my-vit --data imagenet/val --limit 100 --out runs/grid
  whyformer evaluate saco --model ./my-vit --data imagenet/val --limit 200 --out runs/saco
  whyformer evaluate sanity --model ./my-vit --data photos/ --limit 10 --out runs/sanity
  whyformer evaluate pointing --limit 200 --methods-from mine.py --methods mine,rollout
  whyformer evaluate grid --methods generic_attention,generic_attention:gradient=libra,fullgrad
  whyformer evaluate writing --limit 50                 demo-writer on stories, truth known
  whyformer evaluate boxes --limit 50                   demo-detector on scenes, truth known
  whyformer evaluate captions --limit 50                demo-clip on scenes, truth known
  whyformer evaluate pointing --model demo-swin --known --limit 50     on scenes, truth known
  torchrun --nproc-per-node 4 -m whyformer evaluate perturbation --data ... --out runs/in

image data: a folder for each class (named by ImageNet's number, by index or by label), ImageNet's
flat validation folder with its ground truth file, a folder with index.jsonl (lines with "image",
"mask" or "masks", "label"), gtsegs_ijcv.mat, or datasets:NAME. Text data: an ERASER directory,
datasets:NAME, or for erasure a TSV (lines of sentence TAB label). A killed run goes on where it was
when the same command is started again; methods can be added to a finished run. On several machines
--out is a folder that all of them share.
"""
BENCHMARKS = tuple(
    "perturbation segmentation rationales pointing grid saco sanity erasure writing boxes "
    "captions".split()
)
#: the embedded models for benchmarks whose truth is known
KNOWN = {"writing": "demo-writer", "boxes": "demo-detector", "captions": "demo-clip"}
KINDS = {name: "text" if name in ("rationales", "erasure") else "image" for name in BENCHMARKS}
PAPER = ("perturbation", "segmentation", "rationales")


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="measure which method explains a model best",
        description="Measure which method explains a model best.",
        epilog=EPILOG,
    )
    parser.add_argument("benchmark", choices=(*BENCHMARKS, "all"))
    add_model_options(parser)
    parser.add_argument("--data", help="folder, file or datasets:NAME (default: embedded)")
    parser.add_argument("--limit", type=int, metavar="N", help="evenly chosen samples, or grids")
    add_methods_option(parser)
    parser.add_argument(
        "--preset", default="stable", metavar="NAME", help="stable (default), paper or reference"
    )
    parser.add_argument("--split", default="test", help="of ERASER or datasets (default: test)")
    parser.add_argument(
        "--confidence",
        type=float,
        default=0.5,
        metavar="P",
        help="of the model for each photo of a grid, alone in its cell (default: 0.5)",
    )
    parser.add_argument(
        "--known",
        action="store_true",
        help="pointing: leave out samples whose objects are not the model's surest classes",
    )
    parser.add_argument(
        "--grain",
        default="pixels",
        help="images: methods that reach the pixels are taken there (pixels, the default), or by "
        "sums over patches, as all others are (patches)",
    )
    texts = parser.add_argument_group("texts")
    texts.add_argument(
        "--cut",
        default="head",
        help="what is read of a document that is too long: head (default), tail or windows",
    )
    texts.add_argument(
        "--longest", type=int, metavar="N", help="read at most N word pieces (default: the model's)"
    )
    texts.add_argument(
        "--removal", default="mask", help="how erasure takes words away: mask (default) or delete"
    )
    parser.add_argument(
        "-o", "--out", metavar="FOLDER", help="default: runs/BENCHMARK-MODEL-LIMIT in this folder"
    )
    parser.add_argument("--cache", metavar="FOLDER", help="keep maps here for other runs")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no remarks")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Returns 2 if some samples could not be measured, as ``explain`` does for a folder."""
    chosen = chosen_methods(options)
    if options.limit is not None and options.limit < 1:
        raise InputError(f"--limit {options.limit}: expected at least 1")
    if options.benchmark != "all":
        why = load_fitting(options)
        folder = Path(options.out or default_folder(options.benchmark, why.name, options))
        found = [evaluate_one(options.benchmark, why, chosen, folder, options)]
        present(found, folder, options)
        return exit_code(found)
    folder = Path(options.out or default_folder("all", options.model, options))
    found = evaluate_all(chosen, folder, options)
    if all(found):
        from whyformer.evaluation import save_report

        save_report([result for result in found if result is not None], folder)
    present(found, folder, options)
    return exit_code(found)


def load_fitting(options: argparse.Namespace) -> Pipeline:
    """The model that was asked for, or the embedded one for this benchmark."""
    if options.benchmark in KNOWN:
        return load_named(options.model or KNOWN[options.benchmark], options)
    return load_for(options, KINDS[options.benchmark])


def exit_code(found: list[Result | None]) -> int:
    return 2 if any(result is not None and result.failures for result in found) else 0


def default_folder(benchmark: str, model: str | None, options: argparse.Namespace) -> str:
    """Another number of samples is another run."""
    name = Path(model).name if model else None
    return "runs/" + "-".join(str(part) for part in (benchmark, name, options.limit) if part)


def evaluate_one(
    benchmark: str,
    why: Pipeline,
    chosen: list[str] | None,
    folder: Path,
    options: argparse.Namespace,
) -> Result | None:
    from whyformer.evaluation import evaluate

    given = {**vars(options), "benchmark": benchmark, "methods": chosen, "out": folder}
    if KINDS[benchmark] != "text":
        given["longest"] = None
    asked = {name: given[name] for name in signature(evaluate).parameters if name in given}
    try:
        return evaluate(why=why, **asked, progress=not options.quiet)
    except KeyboardInterrupt:
        print(
            f"\nwhyformer: what was measured is in {folder}; the same command goes on from there",
            file=sys.stderr,
        )
        raise


def evaluate_all(
    chosen: list[str] | None, folder: Path, options: argparse.Namespace
) -> list[Result | None]:
    """The paper's benchmarks, on the embedded models, or those that the given model can take."""
    if options.model is None:
        loaded = {kind: load_for(options, kind) for kind in ("image", "text")}
    else:
        why = load_named(options.model, options)
        loaded = {why.kind: why}
        if not any(KINDS[name] in loaded for name in PAPER):
            raise InputError(
                f"the paper's benchmarks need images or texts, and {why.name} is made for "
                f"{why.kind}; name a benchmark for it instead of all"
            )
    return [
        evaluate_one(name, loaded[KINDS[name]], chosen, folder / name, options)
        for name in PAPER
        if KINDS[name] in loaded
    ]


def present(results: list[Result | None], folder: Path, options: argparse.Namespace) -> None:
    """The first process prints; the others of a ``torchrun`` have nothing to say."""
    found = [result for result in results if result is not None]
    if not found:
        return
    from whyformer.evaluation.report.plots import has_plots
    from whyformer.evaluation.report.tables import legend, to_text

    print("\n\n".join(to_text(result) for result in found))
    if options.quiet:
        return
    print(f"\n{legend(found)}\nreport: {folder / 'report.html'}")
    if not has_plots():
        print("no plots: they need matplotlib (pip install 'whyformer[evaluation]')")
