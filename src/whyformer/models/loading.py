"""``whyformer.load``: a model by its name, with its own preprocessing."""

from __future__ import annotations

import os
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.errors import ModelError, UnknownNameError, nearest
from whyformer.files import FILE, FOLDER, what_is
from whyformer.models.catalogue import EMBEDDED, Embedded
from whyformer.models.pipeline import Pipeline, move

if TYPE_CHECKING:
    from transformers import Pipeline as TransformersPipeline

TIMM = "timm/"


def load(
    name: str | Path | TransformersPipeline,
    *,
    weights: str | Path | None = None,
    device: str | None = None,
    allow_pickle: bool = False,
    offline: bool = False,
    **options: Any,
) -> Pipeline:
    """A model that can be asked why: a classifier, a language model, and others.

    ``name`` is a model of this package ("demo-vision", "demo-text"), a directory in Hugging Face's
    layout, a hub id, or "timm/NAME" (``weights``: a safetensors file with timm's names, instead of
    timm's own download). Or it is a transformers pipeline for image or text classification or for
    text generation, whose model, preprocessing and device are used as they are. Weights are read
    from safetensors; ``allow_pickle`` also takes pickled ones, without running code from them. Code
    from a model's repository is never run. ``options`` go to ``Explainer``: ``output``, ``labels``,
    ``pooling``, ``grid``. Pages and files show a directory's own name, not the way to it.
    """
    check_options(options)
    if not isinstance(name, str | Path):
        from whyformer.models.from_transformers import load_pipeline

        return load_pipeline(name, weights, device, options)
    given = str(name)
    if not given.startswith(TIMM) and weights is not None:
        raise ModelError(
            f"weights= goes with timm models, not with {given!r}; a directory or a hub id brings "
            "its own"
        )
    if given in EMBEDDED:
        return load_embedded(EMBEDDED[given], device, options)
    if given.startswith(TIMM):
        from whyformer.models.from_timm import load_timm

        return load_timm(given, weights, device, allow_pickle, offline, options)
    path = Path(os.path.expanduser(given))
    kind = what_is(path) if given.strip() else None
    if kind == FILE:
        raise ModelError(
            f"{given} is a file; give the directory that holds config.json and the weights"
        )
    if kind == FOLDER:
        from whyformer.models.hugging_face import load_directory

        why = load_directory(path, given, device, allow_pickle, options)
        why.name = path.resolve().name or given
        return why
    if not looks_like_hub_id(given):
        raise UnknownNameError(
            f"no model {given!r}: not in this package, no such directory, and no hub id "
            f"(owner/name); {nearest(given, EMBEDDED)}"
        )
    from whyformer.models.hugging_face import load_from_hub

    return load_from_hub(given, device, allow_pickle, offline, options)


def load_embedded(model: Embedded, device: str | None, options: dict[str, Any]) -> Pipeline:
    """demo-vision needs no transformers, whose import would take most of the time."""
    if model.name != "demo-vision":
        from whyformer.models.hugging_face import load_directory

        return load_directory(model.path, model.name, device, False, options)
    from whyformer.demo.vit import load_vit, prepare
    from whyformer.explainer import Explainer
    from whyformer.models.images import ImagePipeline

    vit = load_vit(model.path)
    move(vit, device)
    side = vit.config.side
    explainer = Explainer(vit, **{"labels": vit.config.labels, **options})
    return ImagePipeline(
        model.name, explainer, lambda images: prepare(images, side), mean=[0.5], std=[0.5]
    )


def check_options(options: dict[str, Any]) -> None:
    """Refuse what is no option of a model; what is one of a question is told where to go."""
    from whyformer.explainer import Explainer

    known = [name for name in signature(Explainer).parameters if name != "model"]
    for name in options:
        if name in signature(Pipeline.__call__).parameters:
            raise UnknownNameError(
                f"{name} belongs to a question, not to the model: why = whyformer.load(...), then "
                f"why(input, {name}={options[name]!r})"
            )
        if name not in known:
            raise UnknownNameError(f"whyformer.load has no option {name!r}; {nearest(name, known)}")


def looks_like_hub_id(name: str) -> bool:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return "/" in name
