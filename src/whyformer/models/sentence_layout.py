"""The layout of sentence-transformers: how a model's tokens become one sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.errors import ModelError
from whyformer.models.similarity import Pool, first_token, last_token, mean_of_tokens

#: the poolings by their names in 1_Pooling/config.json; a cosine does not see a vector's length
POOLINGS: dict[str, Pool] = {
    "mean_tokens": mean_of_tokens,
    "mean_sqrt_len_tokens": mean_of_tokens,
    "cls_token": first_token,
    "lasttoken": last_token,
    "mean": mean_of_tokens,
    "cls": first_token,
}
#: modules that change nothing that a cosine could see
HARMLESS = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class Layout:
    """``longest``: the pieces that sentences were cut to, where it is stated."""

    pool: Pool
    longest: int | None
    notes: tuple[str, ...]


def read_layout(folder: Path, name: str) -> Layout:
    modules = read(folder / "modules.json")
    if modules is None:
        note = "no modules.json says how tokens become a sentence: their mean was taken"
        return Layout(mean_of_tokens, None, (note,))
    kinds = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    for kind in kinds:
        if kind not in HARMLESS:
            raise ModelError(
                f"{name} has a {kind} module behind its Transformer, which whyformer does not "
                "read; put it into a module of yours and use whyformer.Explainer(module)"
            )
    settings = read(folder / "sentence_bert_config.json") or {}
    if settings.get("do_lower_case"):
        raise ModelError(
            f"{name} has its texts put into lower case before its tokenizer; do so, and use "
            "whyformer.Explainer(model)"
        )
    return Layout(
        pooling(folder / kinds.get("Pooling", "1_Pooling") / "config.json", name),
        settings.get("max_seq_length"),
        tuple(remarks(read(folder / "config_sentence_transformers.json") or {})),
    )


def pooling(path: Path, name: str) -> Pool:
    config = read(path) or {}
    named = [key.removeprefix("pooling_mode_") for key, value in config.items() if value is True]
    named = [key for key in named if f"pooling_mode_{key}" in config]
    if isinstance(config.get("pooling_mode"), str):
        named = [config["pooling_mode"]]
    if len(named) != 1 or named[0] not in POOLINGS:
        raise ModelError(
            f"{name} pools its tokens by {' and '.join(named) or 'no stated rule'} ({path.name} in "
            f"{path.parent.name}); expected {', '.join(POOLINGS)}"
        )
    return POOLINGS[named[0]]


def remarks(settings: dict[str, Any]) -> list[str]:
    """What sentence-transformers would do, and is not done here."""
    found = []
    if settings.get("default_prompt_name"):
        found.append(f"the model's prompt {settings['default_prompt_name']!r} is not put before it")
    if settings.get("similarity_fn_name") not in (None, "cosine"):
        found.append(f"the cosine is explained, not {settings['similarity_fn_name']}")
    return found


def read(path: Path) -> Any:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
