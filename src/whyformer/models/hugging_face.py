"""Hugging Face models: configuration, weights, processor and tokenizer of one directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from whyformer.errors import ModelError, first_line, nearest
from whyformer.explainer import Explainer
from whyformer.models.catalogue import EMBEDDED
from whyformer.models.images import ImagePipeline
from whyformer.models.kinds import Kind, kind_of, read_config
from whyformer.models.pipeline import Pipeline, move
from whyformer.models.texts import TextPipeline
from whyformer.models.vocabulary import fast, load_tokenizer

PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
SAFE = ("model.safetensors", "model.safetensors.index.json")


def load_from_hub(
    name: str, device: str | None, allow_pickle: bool, offline: bool, options: dict[str, Any]
) -> Pipeline:
    folder = fetch(name, allow_pickle, offline)
    return load_directory(folder, name, device, allow_pickle, options)


def fetch(name: str, allow_pickle: bool, offline: bool) -> Path:
    """Download what is needed, once, or take it from the local cache: the model's directory."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

    wanted = ["*.json", "*.txt", "*.model", "*.safetensors"]
    if allow_pickle:
        wanted.append("*.bin")
    try:
        return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=offline))
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"the hub has no model {name!r}, or it is private; {nearest(name, EMBEDDED)}"
        ) from error
    except (LocalEntryNotFoundError, OSError) as error:
        why = "offline was asked for" if offline else "the hub cannot be reached"
        raise ModelError(
            f"no model {name!r}: it is no directory here and not in the local cache, and {why}; "
            f"offline there are {', '.join(EMBEDDED)}, and any directory with config.json and "
            "model.safetensors"
        ) from error


def load_directory(
    folder: Path, name: str, device: str | None, allow_pickle: bool, options: dict[str, Any]
) -> Pipeline:
    config = read_config(folder, name)
    kind = kind_of(config, name)
    check_weights(folder, name, allow_pickle)
    model = load_model(folder, name, kind, allow_pickle)
    move(model, device)
    explainer = Explainer(model, **{"output": kind.output, **options})
    return kind.make(folder, name, explainer)


def check_weights(folder: Path, name: str, allow_pickle: bool) -> None:
    if any((folder / file).is_file() for file in SAFE):
        return
    pickled = [file for file in PICKLED if (folder / file).is_file()]
    if not pickled:
        raise ModelError(f"{name} holds no weights: expected {SAFE[0]}")
    if not allow_pickle:
        raise ModelError(
            f"{name} has pickled weights only ({pickled[0]}); if you trust them, pass "
            "allow_pickle=True (on the command line --allow-pickle), or convert them to safetensors"
        )


def load_model(folder: Path, name: str, kind: Kind, allow_pickle: bool) -> nn.Module:
    """The model in float32 and evaluation mode, with every weight from the file."""
    import transformers

    family: Any = getattr(transformers, kind.auto)
    try:
        with quiet_transformers():
            model, report = pretrained(family, folder, allow_pickle, ignore_mismatched_sizes=True)
    except Exception as error:
        raise ModelError(f"{name} cannot be loaded: {first_line(error)}") from error
    for misfit, *_ in sorted(report["mismatched_keys"]):
        raise ModelError(f"{name}: {misfit} has another shape than config.json says")
    missing = sorted(key for key in report["missing_keys"] if not key.startswith(kind.optional))
    if missing:
        raise ModelError(
            f"{name} lacks the weights of {missing[0]}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
            + ": they would be random; give a model that was trained for this"
        )
    return model.eval()


def pretrained(family: Any, folder: Path, allow_pickle: bool, **options: Any) -> tuple[Any, Any]:
    """A model of a directory in float32, and what transformers tells of its weights."""
    return family.from_pretrained(
        folder,
        dtype=torch.float32,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=None if allow_pickle else True,
        weights_only=True,
        output_loading_info=True,
        **options,
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """What transformers says while it loads or trains is said by us, or is no news."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def image_pipeline(folder: Path, name: str, explainer: Explainer) -> ImagePipeline:
    return prepared_by(load_processor(folder, name), name, explainer)


def is_prepared(folder: Path) -> bool:
    """Whether a directory says how images or sounds are prepared.

    A processor of several parts, such as CLIP's, writes all of them to one file.
    """
    files = ("preprocessor_config.json", "processor_config.json")
    return any((folder / file).is_file() for file in files)


def load_processor(folder: Path, name: str) -> Any:
    """What prepares a model's images, without torchvision."""
    from transformers import AutoImageProcessor

    if not is_prepared(folder):
        raise ModelError(
            f"{name} has no preprocessor_config.json: how its images are prepared is unknown; add "
            "it, or prepare the pixels yourself and use whyformer.Explainer(model)"
        )
    try:
        return AutoImageProcessor.from_pretrained(
            folder, backend="pil", local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        raise ModelError(f"{name}'s image processor cannot be used: {first_line(error)}") from error


def prepared_by(processor: Any, name: str, explainer: Explainer) -> ImagePipeline:
    """An image classifier that a transformers image processor prepares pictures for."""

    def prepare(images: list[Any]) -> torch.Tensor:
        return processor(images, return_tensors="pt")["pixel_values"]

    normalised = getattr(processor, "do_normalize", True)
    mean, std = (processor.image_mean, processor.image_std) if normalised else ([0.0], [1.0])
    return ImagePipeline(name, explainer, prepare, mean, std)


def text_pipeline(folder: Path, name: str, explainer: Explainer) -> TextPipeline:
    return encoded_by(load_tokenizer(folder, name), name, explainer)


def encoded_by(tokenizer: Any, name: str, explainer: Explainer) -> TextPipeline:
    """A text classifier that a transformers tokenizer encodes texts for."""
    longest = longest_text(explainer.model, tokenizer)
    return TextPipeline(name, explainer, fast(tokenizer, name), longest)


def longest_text(model: nn.Module, tokenizer: Any) -> int:
    """The most pieces the model takes, special tokens included."""
    table = next(
        (
            module
            for path, module in model.named_modules()
            if path.endswith("position_embeddings") and isinstance(module, nn.Embedding)
        ),
        None,
    )
    positions = getattr(model.config, "max_position_embeddings", None) or 512
    if table is not None:
        # RoBERTa and its kin start counting behind the padding index.
        skipped = 0 if table.padding_idx is None else table.padding_idx + 1
        positions = table.num_embeddings - skipped
    return min(int(tokenizer.model_max_length), int(positions))
