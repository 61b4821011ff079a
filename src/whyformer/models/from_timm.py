"""timm models: weights by timm's names, preprocessing by timm's own settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from whyformer.errors import ModelError, UnknownNameError, first_line, nearest
from whyformer.explainer import Explainer
from whyformer.models.images import ImagePipeline
from whyformer.models.pipeline import move


def load_timm(
    given: str,
    weights: str | Path | None,
    device: str | None,
    allow_pickle: bool,
    offline: bool,
    options: dict[str, Any],
) -> ImagePipeline:
    """``given`` is "timm/NAME"; without ``weights`` timm downloads its own."""
    try:
        import timm
        import timm.data
    except ImportError as error:
        raise ModelError(
            f"{given} needs timm: pip install 'whyformer[vision]' ({error})"
        ) from error
    name = given.split("/", 1)[1]
    if not timm.is_model(name):
        raise UnknownNameError(f"timm has no model {name!r}; {nearest(name, timm.list_models())}")
    if weights is None and offline:
        raise ModelError(f"{given} would be downloaded, and offline was asked for; give weights=")
    try:
        model = timm.create_model(name, pretrained=weights is None)
    except Exception as error:
        raise ModelError(
            f"timm cannot make {name!r} with its own weights ({first_line(error)}); offline, give "
            "weights="
        ) from error
    if weights is not None:
        state = read_weights(Path(weights), allow_pickle)
        check_fit(model.state_dict(), state, f"{weights} does not fit {name}")
        model.load_state_dict(state)
    model.eval()
    move(model, device)
    if "labels" not in options and getattr(model, "num_classes", 0) == 1000:
        info = timm.data.ImageNetInfo()
        options["labels"] = [info.index_to_description(i, detailed=False) for i in range(1000)]
    settings = timm.data.resolve_data_config(model=model)
    transform = timm.data.create_transform(**settings)

    def prepare(images: list[Any]) -> torch.Tensor:
        return torch.stack([transform(image) for image in images])

    return ImagePipeline(
        given, Explainer(model, **options), prepare, settings["mean"], settings["std"]
    )


def check_fit(expected: dict[str, Any], given: dict[str, Any], what: str) -> None:
    for name in sorted(expected.keys() ^ given.keys()):
        raise ModelError(f"{what}: {name} is {'missing' if name in expected else 'too much'}")
    for name, value in expected.items():
        if value.shape != given[name].shape:
            raise ModelError(
                f"{what}: {name} is {tuple(given[name].shape)}, not {tuple(value.shape)}"
            )


def read_weights(path: Path, allow_pickle: bool) -> dict[str, Any]:
    if not path.is_file():
        raise ModelError(f"no such file: {path}")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        if not allow_pickle:
            raise ModelError(
                f"{path} is not a .safetensors file; if you trust its pickled weights, pass "
                "allow_pickle=True (on the command line --allow-pickle)"
            )
        state = torch.load(path, map_location="cpu", weights_only=True)
        return state.get("model", state.get("state_dict", state))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{path} cannot be read as weights: {first_line(error)}") from error
