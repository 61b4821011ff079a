"""Hugging Face data sets: by name, from a folder that ``save_to_disk`` wrote, or from tables."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from whyformer.errors import InputError, first_line
from whyformer.files import FOLDER, what_is

#: what the place of a Hugging Face data set begins with
HUB = "datasets:"
#: endings of tables, which are the names of their readers, too
TABLES = (".parquet", ".arrow")
#: how columns of a kind are usually called
USUAL = {"image": ("image", "img"), "text": ("text", "sentence", "review", "content")}


def optional(module: str, what: str) -> Any:
    """A library that only some data need."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{what} needs {module}; install it with: pip install 'whyformer[evaluation]'"
        ) from error


def columns_of(features: Mapping[str, Any], kind: str) -> list[str]:
    """The columns of images, or of texts."""
    ending = {"image": "Image", "text": "string"}[kind]
    return [name for name, feature in features.items() if kind_of(feature).endswith(ending)]


def usual_of(columns: Sequence[str], kind: str) -> list[str]:
    """The first of the columns that is called as it is usual, if one is."""
    return [name for name in USUAL[kind] if name in columns][:1]


def kind_of(feature: Any) -> str:
    return str(getattr(feature, "dtype", None) or type(feature).__name__)


def described(features: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} ({kind_of(kind)})" for name, kind in features.items())


def stored_image(stored: Any) -> bytes | Path:
    """What a cell of images holds before it is decoded: the file itself, or where it lies."""
    if stored is None or not (stored["bytes"] or stored["path"]):
        raise InputError("the sample has no image")
    if stored["bytes"]:
        return bytes(stored["bytes"])
    if "://" not in stored["path"]:
        return Path(stored["path"])
    try:
        with optional("fsspec", stored["path"]).open(stored["path"], "rb") as file:
            return bytes(file.read())
    except Exception as error:  # every kind of store has errors of its own
        raise InputError(f"{stored['path']} cannot be read: {first_line(error)}") from error


def read_row(rows: Any, index: int) -> Any:
    try:
        return rows[index]
    except Exception as error:  # damaged tables make pyarrow raise many things
        raise InputError(f"row {index} cannot be read: {first_line(error)}") from error


def is_saved(folder: Path) -> bool:
    """Whether ``Dataset.save_to_disk`` or ``DatasetDict.save_to_disk`` wrote the folder."""
    if what_is(folder / "dataset_dict.json"):
        return True
    return all(what_is(folder / name) for name in ("dataset_info.json", "state.json"))


def is_data_set(given: str) -> bool:
    """Whether this is the name of a data set, or a saved one, or a table, or a folder of tables."""
    path = Path(given)
    if given.startswith(HUB) or is_saved(path):
        return True
    kind = what_is(path)
    if kind != FOLDER:
        return "\n" not in given and path.suffix.lower() in TABLES
    return any(file.suffix.lower() in TABLES for file in path.glob("[!.]*"))


def load(
    datasets: Any, data: str, split: str | None, *, stream: bool = False, download: bool = True
) -> Any:
    """The rows of a split: of a saved folder, of other local files, or of the hub.

    Without a split there may be one only. ``stream``: rows are read as they come, and no copy of
    the data set is made; what is only in the cache is mapped into memory.
    """
    name, _, config = data.removeprefix(HUB).partition("@")
    folder = Path(data.removeprefix(HUB))
    if is_saved(folder):
        return load_saved(datasets, folder, split)
    if not name:
        raise InputError(f"{data}: expected {HUB}OWNER/NAME, or {HUB}OWNER/NAME@CONFIG")
    local = what_is(Path(name)) is not None
    source: dict[str, Any] = {"path": name, "name": config or None}
    if Path(name).suffix.lower() in TABLES:
        if not local:
            raise InputError(f"no such file: {name}")
        source = {"path": Path(name).suffix.lower()[1:], "data_files": name}
    cut_off = not local and not (download and reachable(name))
    with offline(datasets, cut_off) as cached_only:
        try:
            streaming = stream and (local or not cached_only)
            found = datasets.load_dataset(**source, split=split, streaming=streaming)
        except Exception as error:  # datasets, its downloads and its tables raise many things
            if cached_only and not local:
                raise InputError(
                    f"the data set {name!r} cannot be had: the hub cannot be reached, and it is "
                    "not in the cache; give a folder that save_to_disk wrote elsewhere"
                ) from error
            asked = f" ({split})" if split else ""
            raise InputError(
                f"the data set {name!r} cannot be read ({first_line(error)}); check "
                f"--split{asked} and the configuration ({HUB}{name}@CONFIG)"
            ) from error
    return choose_split(found, split, name)


def load_saved(datasets: Any, folder: Path, split: str | None) -> Any:
    """A folder with one table is taken as it is, whatever its split is called."""
    try:
        found = datasets.load_from_disk(str(folder))
    except Exception as error:
        raise InputError(f"{folder} is empty or damaged: {first_line(error)}") from error
    return choose_split(found, split, str(folder))


def choose_split(found: Any, split: str | None, where: str) -> Any:
    if not isinstance(found, dict):
        return found
    if split is None and len(found) == 1:
        return next(iter(found.values()))
    if split is None:
        raise InputError(f"{where} has the splits {', '.join(found)}; choose with --split")
    if split not in found:
        raise InputError(
            f"{where} has no split {split!r}, only {', '.join(found)}; choose with --split"
        )
    return found[split]


def reachable(name: str) -> bool:
    """Ask the hub once for the data set, without the minutes that ``datasets`` would try for."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        HfApi().dataset_info(name, timeout=10)
    except GatedRepoError as error:
        raise InputError(
            f"the data set {name!r} is gated: accept its terms on the hub and log in"
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(
            f"no data set {name!r}: no such folder, and the hub has none of that name, or it is "
            "private"
        ) from error
    except Exception:  # no network, no answer in time, or HF_HUB_OFFLINE
        return False
    return True


@contextmanager
def offline(datasets: Any, wanted: bool) -> Iterator[bool]:
    """Let ``datasets`` look at its cache only."""
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = before or wanted
    try:
        yield before or wanted
    finally:
        datasets.config.HF_HUB_OFFLINE = before
