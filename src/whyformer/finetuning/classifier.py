"""The model that is trained: its own head where the classes are the same, else a new one."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    set_seed,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as TEXT_MODELS,
)

from whyformer.errors import InputError, ModelError, UnknownNameError, first_line
from whyformer.evaluation.data.classes import class_of
from whyformer.explanation import SINGLE_LABEL
from whyformer.files import FILE, what_is
from whyformer.finetuning.settings import CUTS
from whyformer.finetuning.texts import Part
from whyformer.models.catalogue import EMBEDDED
from whyformer.models.hugging_face import check_weights, fetch, load_model, pretrained
from whyformer.models.kinds import KINDS, read_config
from whyformer.models.loading import TIMM, looks_like_hub_id

Example = dict[str, Any]


def find_model(name: str, allow_pickle: bool, offline: bool) -> Path:
    """The model's directory: local, embedded, or from the hub's cache; with weights in it."""
    if name.startswith(TIMM) or (name in EMBEDDED and EMBEDDED[name].kind != "text"):
        raise ModelError(f"{name} reads images; fine-tuning takes models that read texts")
    folder = EMBEDDED[name].path if name in EMBEDDED else Path(os.path.expanduser(name))
    kind = what_is(folder) if name.strip() else None
    if kind == FILE:
        raise ModelError(
            f"{name} is a file; give the directory that holds config.json and the weights"
        )
    if kind is None:
        if not looks_like_hub_id(name):
            raise UnknownNameError(
                f"no model {name!r}: no such directory, and no hub id (owner/name)"
            )
        folder = fetch(name, allow_pickle, offline)
    config = read_config(folder, name)
    if config.get("model_type") not in TEXT_MODELS:
        stated = " and ".join(config.get("architectures") or [str(config.get("model_type"))])
        raise ModelError(
            f"{name} is {stated}, which is no text classifier and cannot become one; expected a "
            "text encoder such as BERT, RoBERTa, DistilBERT or ELECTRA"
        )
    check_weights(folder, name, allow_pickle)
    return folder


def hash_weights(folder: Path) -> str:
    """The same for the same weights and configuration."""
    digest = hashlib.sha256()
    for pattern in ("config.json", "*.safetensors", "*.bin"):
        for path in sorted(folder.glob(pattern)):
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def match_labels(labels: Sequence[str], known: Sequence[str]) -> dict[str, int] | None:
    """Which of a head's classes the data's are: by name, or 0, 1, ... by number; None if not all.

    "NEG" is "negative" as well.
    """
    if len(labels) != len(known):
        return None
    try:
        named = {label: class_of(label, known) for label in labels}
        if len(set(named.values())) == len(known):
            return named
    except InputError:
        pass
    numbered = {label: i for i, label in enumerate(labels)}
    return numbered if list(labels) == [str(i) for i in range(len(known))] else None


def load_classifier(
    folder: Path, name: str, labels: Sequence[str], seed: int, allow_pickle: bool
) -> tuple[Any, dict[str, int], bool]:
    """The classifier in float32, the data's classes in it, and whether it had a head for them."""
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    is_classifier = any("ForSequenceClassification" in a for a in config.architectures or [])
    classes = match_labels(labels, list(config.id2label.values())) if is_classifier else None
    if classes is not None:
        model: Any = load_model(folder, name, KINDS["ForSequenceClassification"], allow_pickle)
        model.config.problem_type = SINGLE_LABEL
        return model, classes, True
    classes = {label: i for i, label in enumerate(labels)}
    config.id2label = {i: label for label, i in classes.items()}
    config.label2id = dict(classes)
    config.problem_type = SINGLE_LABEL
    set_seed(seed)
    try:
        encoder, report = pretrained(AutoModel, folder, allow_pickle)
        set_seed(seed)
        model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
        absent, _ = model.base_model.load_state_dict(encoder.state_dict(), strict=False)
    except Exception as error:
        raise ModelError(f"{name} cannot be loaded: {first_line(error)}") from error
    missing = sorted(key for key in (*report["missing_keys"], *absent) if "pooler" not in key)
    if missing:
        raise ModelError(
            f"{name} lacks the weights of {missing[0]}: they would be random; give a whole encoder"
        )
    return model, classes, False


def encode(
    part: Part, tokenizer: Any, longest: int, cut: str, classes: dict[str, int]
) -> list[Example]:
    """What the model reads. The copy keeps the cut out of the tokenizer's own settings."""
    own = copy.deepcopy(tokenizer)
    own.truncation_side = CUTS[cut]
    encoded = own(part.texts, truncation=True, max_length=longest, verbose=False)
    return [
        {**{key: encoded[key][i] for key in encoded}, "labels": classes[label]}
        for i, label in enumerate(part.labels)
    ]
