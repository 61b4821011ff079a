"""What the options of a command ask for: methods, a model, a target, a look."""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.cli.inputs import CliInput, a
from whyformer.errors import InputError, ModelError
from whyformer.files import ANIMATIONS, FOLDER, what_is
from whyformer.methods import all_methods, get_method

if TYPE_CHECKING:
    from whyformer.models.pipeline import Pipeline
    from whyformer.models.recorded import Recorded
    from whyformer.render.look import Look

DEFAULT_MODELS = {"image": "demo-vision", "text": "demo-text"}
#: the model for an image or a text that is compared with others
COMPARES = "demo-clip"


def chosen_methods(options: argparse.Namespace) -> list[str] | None:
    """The methods that were named, each once; None where none was."""
    if options.methods is None:
        return None
    named = [name.strip() for given in options.methods for name in given.split(",") if name.strip()]
    if not named:
        raise InputError("--methods names none; give names with commas between them, or all")
    listed = [method for name in named for method in (all_methods() if name == "all" else [name])]
    return list(dict.fromkeys(get_method(name).name for name in listed))


def check_look(options: argparse.Namespace, kind: str) -> None:
    """Refuse what the picture of such an input cannot show."""
    given = {"--pieces": ("text", options.pieces), "--patches": ("image", options.patches)}
    given["--contour"] = ("image", options.contour is not None)
    given["--cropped"] = ("image", options.cropped)
    for name, (fits, chosen) in given.items():
        drawn = "image" if kind in ("sound", "video") else kind
        if chosen and drawn != fits:
            raise InputError(f"{name} goes with {fits}s, and the input is {a(kind)}")


#: endings of what is drawn, dot by dot or line by line
PICTURES = (".png", ".svg", ".pdf", ".gif", ".tex")


def check_drawn(options: argparse.Namespace, ending: str | None) -> None:
    """Refuse what a file of such an ending, or the terminal without one, does not show."""
    chosen = {"--contour": options.contour, "--size": options.size, "--dpi": options.dpi}
    chosen["--fragment"] = options.fragment or None
    for name, value in chosen.items():
        shown = (".tex",) if name == "--fragment" else PICTURES
        if value is None or ending in shown or (ending is None and name == "--contour"):
            continue
        what = f"a {ending} file" if ending else "the terminal"
        raise InputError(f"{name} changes nothing in {what}; it goes with {', '.join(shown)}")


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
    with _uncollected():
        from whyformer.models.loading import load

        return load(
            name,
            weights=options.weights,
            device=own_device(options.device),
            allow_pickle=options.allow_pickle,
            offline=options.offline,
        )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Python looks for no garbage meanwhile: it would take a fifth of the time, and find none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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
