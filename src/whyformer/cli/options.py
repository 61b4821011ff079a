"""Options that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.cli.inputs import CliInput, a
from whyformer.errors import InputError, ModelError
from whyformer.files import ANIMATIONS, FOLDER, what_is
from whyformer.methods import all_methods, get_method

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline, Recorded
    from whyformer.render.look import Look

DEFAULT_MODELS = {"image": "demo-vision", "text": "demo-text"}
#: the model for an image or a text that is compared with others
COMPARES = "demo-clip"


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


def chosen_methods(options: argparse.Namespace) -> list[str] | None:
    """The methods that were named, each once; None where none was."""
    if options.methods is None:
        return None
    named = [name.strip() for given in options.methods for name in given.split(",") if name.strip()]
    listed = [method for name in named for method in (all_methods() if name == "all" else [name])]
    return list(dict.fromkeys(get_method(name).name for name in listed))


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
    group.add_argument(
        "--preset",
        default="stable",
        metavar="NAME",
        help="stable (default), paper (equations as written) or reference (the authors' code)",
    )
    group.add_argument(
        "--precision",
        default="full",
        metavar="NAME",
        help="full (default), or fast: products on the way back in bfloat16",
    )
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


def check_look(options: argparse.Namespace, kind: str) -> None:
    """Refuse what the picture of such an input cannot show."""
    given = {"--pieces": ("text", options.pieces), "--patches": ("image", options.patches)}
    given["--contour"] = ("image", options.contour is not None)
    given["--cropped"] = ("image", options.cropped)
    for name, (fits, chosen) in given.items():
        drawn = "image" if kind in ("sound", "video") else kind
        if chosen and drawn != fits:
            raise InputError(f"{name} goes with {fits}s, and the input is {a(kind)}")


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


def look_of(options: argparse.Namespace) -> Look:
    from whyformer.render.look import Look

    return Look(
        opacity=options.opacity,
        smooth=not options.patches,
        contour=options.contour,
        shared=options.scale == "shared",
        colours=options.colours,
        width=options.size,
        **({"dpi": options.dpi} if options.dpi else {}),
        fragment=options.fragment,
        cropped=options.cropped,
    )


def load_for(options: argparse.Namespace, kind: str) -> Pipeline:
    """The model that was asked for, or the embedded one for this kind of input."""
    if options.model is None and kind not in DEFAULT_MODELS:
        raise ModelError(f"no embedded model reads {kind}s; give one with --model")
    alike = getattr(options, "similar_to", None) is not None
    compared = alike or (kind == "image" and getattr(options, "text", None) is not None)
    why = load_named(options.model or (COMPARES if compared else DEFAULT_MODELS[kind]), options)
    if alike and kind == "text" and why.kind == "towers":
        from whyformer.models.towers import TowersPipeline

        assert isinstance(why, TowersPipeline)
        return why.side("text")
    if why.takes != kind:
        raise ModelError(f"{why.name} reads {why.takes}s, and the input is {a(kind)}")
    return why


def given_video(options: argparse.Namespace) -> CliInput | None:
    """The input as a video: one folder of frames or animation, for a model that reads videos."""
    from whyformer.models.catalogue import EMBEDDED
    from whyformer.models.hugging_face import fetch
    from whyformer.models.kinds import kind_of, read_config
    from whyformer.models.loading import TIMM, looks_like_hub_id

    name, path = options.model, Path(options.input[0])
    known = name is not None and name not in EMBEDDED and not name.startswith(TIMM)
    kind = what_is(path) if known and len(options.input) == 1 and options.input[0].strip() else None
    if kind is None or (kind != FOLDER and path.suffix.lower() not in ANIMATIONS):
        return None
    folder = Path(os.path.expanduser(name))
    if not folder.is_dir():
        if not looks_like_hub_id(name):
            return None
        folder = fetch(name, options.allow_pickle, options.offline)
    if kind_of(read_config(folder, name), name).name != "video":
        return None
    return CliInput(options.input[0], "video", path, path.name)


def load_named(name: str, options: argparse.Namespace) -> Pipeline:
    from whyformer.models.loading import load

    return load(
        name,
        weights=options.weights,
        device=own_device(options.device),
        allow_pickle=options.allow_pickle,
        offline=options.offline,
    )


def own_device(device: str | None) -> str | None:
    """Under ``torchrun`` every process of a machine takes a GPU of its own."""
    rank = os.environ.get("LOCAL_RANK")
    return f"cuda:{rank}" if device == "cuda" and rank is not None else device


def read_target(options: argparse.Namespace, recorded: Recorded) -> Any:
    """One target, several, each once, or None for what the model predicts."""
    from whyformer.targets import contrast, from_word

    def read(given: str) -> Any:
        return recorded.index_of(from_word(given, recorded.labels))

    targets: list[Any] = [read(given) for given in options.target or []]
    if options.rather_than is not None:
        other = read(options.rather_than)
        targets = [contrast(target, other) for target in targets or [None]]
    if not targets:
        return None
    targets = list(dict.fromkeys(targets))
    return targets[0] if len(targets) == 1 else [targets]


def place_of(options: argparse.Namespace, recorded: Recorded) -> dict[str, Any]:
    """Where a model is asked that answers at many places."""
    from whyformer.targets import place_from_word

    place = None if options.position is None else place_from_word(options.position)
    return recorded.where(position=place, edge=options.edge, region=options.region)


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
