"""From the names of a data set's classes to a model's indices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files

from whyformer.errors import InputError
from whyformer.targets import labelled

WNID = re.compile(r"n\d{8}")


def class_indices(names: Sequence[str], labels: Sequence[str] | None) -> list[int]:
    """The classes that names stand for: the model's labels, ImageNet's numbers, or indices."""
    known = {label.casefold(): i for i, label in enumerate(labels or [])}
    if all(name.casefold() in known for name in names):
        return [known[name.casefold()] for name in names]
    if all(WNID.fullmatch(name) for name in names):
        numbers = imagenet_numbers()
        if labels is not None and len(labels) != len(numbers):
            raise InputError(
                f"{names[0]} is a number of ImageNet's {len(numbers)} classes, and the model has "
                f"{len(labels)} classes; expected its labels or indices"
            )
        known = {wnid: i for i, wnid in enumerate(numbers)}
        return [_known(name, known) for name in names]
    if all(name.isdecimal() for name in names):
        return [int(name) for name in names]
    return [_known(name.casefold(), known) for name in names]


def _known(name: str, classes: Mapping[str, int]) -> int:
    if name not in classes:
        raise InputError(
            f"{name!r} is no class of the model; expected ImageNet's numbers "
            "(n01440764), class indices, or the model's labels"
        )
    return classes[name]


def class_of(name: str, labels: Sequence[str] | None) -> int:
    """The class that a data set's name means: "NEG" is "negative" as well."""
    wanted = name.casefold()
    known = [label.casefold() for label in labels or []]
    found = [i for i, label in enumerate(known) if label == wanted] or [
        i for i, label in enumerate(known) if label.startswith(wanted) or wanted.startswith(label)
    ]
    if len(found) != 1:
        raise InputError(
            f"the data's class {name!r} is {'several' if found else 'none'} of the model's "
            f"({', '.join(labels or ['without names'])})"
        )
    return found[0]


@lru_cache(4096)
def class_of_folder(name: str, labels: tuple[str, ...]) -> int | None:
    """The class whose photos a folder holds: a label, one of its synonyms, or ImageNet's number."""
    for written in (name, name.replace("_", " ")):
        if len(found := labelled(written, labels)) == 1:
            return found[0]
    try:
        return class_indices([name], labels)[0] if WNID.fullmatch(name) else None
    except InputError:
        return None


def imagenet_numbers() -> list[str]:
    """The WordNet numbers of ImageNet-1k's classes, in the order of their indices."""
    listed = files("whyformer.evaluation.data") / "imagenet_wnids.txt"
    return listed.read_text(encoding="ascii").split()
