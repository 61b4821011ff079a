"""Options that several commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from whyformer.errors import InputError

if TYPE_CHECKING:
    pass


def add_model_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    group = parser.add_argument_group("model")
    default = "demo-vision or demo-text"
    if several:
        default = "the embedded ones; give it once for each model"
    group.add_argument(
        "-m",
        "--model",
        action="append" if several else "store",
        help=f"embedded name, directory, hub id or timm/NAME (default: {default})",
    )
    group.add_argument("--weights", metavar="FILE", help="safetensors for a timm model")
    group.add_argument("--device", help="where it runs: cpu, cuda, cuda:1, mps (default: cpu)")
    add_threads(group)
    group.add_argument("--offline", action="store_true", help="never download")
    group.add_argument(
        "--allow-pickle", action="store_true", help="take pickled weights where there are no others"
    )


def add_threads(group: Any) -> None:
    group.add_argument(
        "--threads",
        type=count,
        metavar="N",
        help="processor cores that torch uses (default: all; fewer are faster on a busy machine)",
    )


def count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def add_own_methods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--methods-from",
        action="append",
        default=[],
        metavar="FILE",
        help="a Python file that registers methods or presets of your own; it is run",
    )


def add_methods_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--methods",
        "--method",
        action="append",
        metavar="A,B:OPTION=VALUE,...",
        help="only these, with options behind colons, or all (default: all but the slow ones and "
        "the ablations)",
    )
    add_own_methods(parser)


def add_question_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("question")
    group.add_argument(
        "-t",
        "--target",
        action="append",
        metavar="CLASS",
        help="label or index; several give several maps (default: what the model predicts)",
    )
    group.add_argument(
        "--rather-than", metavar="CLASS", help="why the target, rather than this class?"
    )
    group.add_argument(
        "--position",
        metavar="PLACE",
        help="where to ask, of models that answer everywhere in a text: the word that follows "
        "piece PLACE, counted from 0 or, below 0, from the end; a tagger's word; a detector's "
        "finding, the surest is 0",
    )
    group.add_argument(
        "--edge", metavar="NAME", help="of a detector's box: left, top, right or bottom"
    )
    group.add_argument(
        "--region",
        type=_box,
        metavar="L,T,R,B",
        help="where a segmentation is asked: left, top, right, bottom, from 0 to 1",
    )
    add_rules_options(group)
    group.add_argument(
        "--pair", metavar="TEXT", help="second text, for models that read sentence pairs"
    )
    group.add_argument(
        "--text",
        action="append",
        metavar="TEXT",
        help="what an image is compared with, or asked; once for each text (CLIP, SigLIP, ViLT)",
    )
    group.add_argument(
        "--similar-to",
        metavar="INPUT",
        help="why are the two similar? an image or a text (DINOv2, CLIP, sentence encoders)",
    )


def add_rules_options(group: Any) -> None:
    group.add_argument(
        "--preset",
        default="stable",
        metavar="NAME",
        help="stable (default), paper (equations as written), reference (the authors' code), or "
        "epsilon, gamma, attnlrp for relevance by these rules",
    )
    group.add_argument(
        "--precision",
        default="full",
        metavar="NAME",
        help="full (default), or fast: products on the way back in bfloat16",
    )


def add_output_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--out",
        metavar="PATH",
        help="file ending in .png, .svg, .pdf, .html, .json, .npz or .tex (default: the terminal)",
    )
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument("-q", "--quiet", action="store_true", help="no progress, no remarks")
    group.add_argument("--pieces", action="store_true", help="show word pieces, not words")
    group.add_argument("--patches", action="store_true", help="show patches, not a smooth map")
    group.add_argument(
        "--contour",
        type=_share,
        metavar="LEVEL",
        help="draw a line around what is stronger than LEVEL, from 0 to 1 (not in .html)",
    )
    group.add_argument(
        "--opacity", type=_share, default=0.85, help="of the map over the image, 0 to 1"
    )
    group.add_argument(
        "--cropped",
        action="store_true",
        help="draw only the part of a photo that the model saw, not a frame in the whole photo",
    )
    group.add_argument(
        "--scale",
        choices=("own", "shared"),
        default="own",
        help="colours span each map's own scores (default), or those of all classes of a method",
    )
    group.add_argument(
        "--colours",
        "--colors",
        type=_colours,
        metavar="NAME",
        help="one of matplotlib's maps: magma, viridis, inferno for images; Blues, Oranges, "
        "Greens, Purples, Reds, Greys; coolwarm, RdBu_r, PuOr_r for signed methods",
    )
    group.add_argument(
        "--size",
        type=_inches,
        metavar="WIDTH",
        help="the figure's width on paper, such as 17cm, 85mm, 6.5in (PNG, SVG, PDF)",
    )
    group.add_argument(
        "--dpi",
        type=_dpi,
        help="a picture's pixels an inch (default: 192; of many PNG files 96)",
    )
    group.add_argument(
        "--fragment", action="store_true", help="LaTeX without a preamble, for \\input (.tex)"
    )


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def _colours(text: str) -> str:
    from whyformer.render.palettes import check_name

    try:
        return check_name(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


#: inches of a unit
LENGTHS = {"cm": 1 / 2.54, "mm": 1 / 25.4, "in": 1.0, "pt": 1 / 72}


def _inches(text: str) -> float:
    number, unit = text[:-2], text[-2:]
    try:
        inches = float(number) * LENGTHS[unit]
    except (KeyError, ValueError):
        inches = 0.0
    if not 1 <= inches <= 100:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no width from 1 to 100 inches; expected such as 17cm, 85mm or 6.5in"
        )
    return inches


def _dpi(text: str) -> int:
    if not text.isdecimal() or not 24 <= int(text) <= 2400:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 24 to 2400")
    return int(text)


def _box(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 4:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no box; give left, top, right, bottom from 0 to 1, such as 0,0.5,1,1"
        )
    return numbers
