"""What was asked for: from an index, a label, lists of them or a function to weights of logits."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.errors import TargetError, nearest

Target = int | str | Tensor | Sequence[Any] | Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class Asked:
    """Targets of a batch. ``seeds``: one (batch, classes) for each target of a sample.

    A seed is dy/dlogits, y being what is explained: one-hot for a class.
    """

    seeds: list[Tensor]
    index: Tensor | None
    several: bool


def resolve(target: Target, logits: Tensor, labels: Sequence[str] | None) -> Asked:
    """Read a target for logits of shape (batch, classes).

    An int or a label means every sample. A flat list means several targets when there is one
    sample, else one for each sample. Nested lists, or a 2-d tensor, mean several for each. A 1-d
    tensor as long as the batch is always one for each sample.
    """
    batch, classes = logits.shape
    if target is None:
        index = logits.detach().argmax(-1, keepdim=True)
        return _indexed(index, classes, logits.dtype, several=False)
    if callable(target) and not isinstance(target, Tensor):
        return Asked([_derivative(target, logits)], None, several=False)
    if isinstance(target, int | str):
        chosen = class_index(target, classes, labels)
        index = torch.full((batch, 1), chosen, device=logits.device)
        return _indexed(index, classes, logits.dtype, several=False)
    each = tuple(getattr(target, "shape", ())) == (batch,)
    if hasattr(target, "tolist"):
        target = target.tolist()
    if not isinstance(target, list | tuple):
        return resolve(class_index(target, classes, labels), logits, labels)
    rows, several = _rows(target, batch)
    index = torch.tensor(
        [[class_index(item, classes, labels) for item in row] for row in rows],
        device=logits.device,
    )
    return _indexed(index, classes, logits.dtype, several and not each)


def class_index(item: Any, classes: int, labels: Sequence[str] | None) -> int:
    if isinstance(item, str):
        return _label_index(item, labels)
    if isinstance(item, bool) or not isinstance(item, int):
        raise TargetError(
            f"target {item!r} is a {type(item).__name__}; give a class index, a label, a list of "
            "them, or a function of the logits"
        )
    if not -classes <= item < classes:
        raise TargetError(f"class {item} of a model with {classes}; choose from 0 to {classes - 1}")
    return item % classes


def from_word(given: str, labels: Sequence[str] | None) -> int | str:
    """A target as it was typed: labels stay words; a whole number that is no label is an index."""
    is_number = re.fullmatch(r"-?[0-9]{1,99}", given) and given not in (labels or [])
    return int(given) if is_number else given


def label_list(labels: Mapping[int, str] | Sequence[str] | None) -> list[str] | None:
    """Labels by index, from a list or from a Hugging Face ``id2label``."""
    if labels is None:
        return None
    if isinstance(labels, Mapping):
        return [str(labels[key]) for key in sorted(labels, key=int)]
    return [str(label) for label in labels]


def _label_index(name: str, labels: Sequence[str] | None) -> int:
    if labels is None:
        raise TargetError(
            f"label {name!r} was asked for but the model has no labels; give a class index, or "
            "Explainer(model, labels=[...])"
        )
    found = [i for i, label in enumerate(labels) if label == name]
    if not found:
        wanted = name.casefold().strip()
        found = [i for i, label in enumerate(labels) if wanted in _synonyms(label)]
    if len(found) == 1:
        return found[0]
    if found:
        options = ", ".join(f"{i} {labels[i]!r}" for i in found)
        raise TargetError(f"label {name!r} names several classes: {options}; give the index")
    raise TargetError(f"no label {name!r}; {nearest(name, labels)}")


def _synonyms(label: str) -> set[str]:
    """ImageNet's labels list synonyms: "tabby, tabby cat" is either."""
    whole = label.casefold()
    return {whole, *(part.strip() for part in whole.split(","))}


def _rows(target: Sequence[Any], batch: int) -> tuple[list[list[Any]], bool]:
    items = list(target)
    if not items:
        raise TargetError("the list of targets is empty; give at least one class, or None")
    nested = [isinstance(item, list | tuple | Tensor) for item in items]
    if not any(nested):
        if batch == 1:
            return [items], True
        if len(items) == batch:
            return [[item] for item in items], False
        raise TargetError(
            f"{len(items)} targets for a batch of {batch}; give one for each sample, or a list of "
            "lists: several for each sample"
        )
    rows = [item.tolist() if isinstance(item, Tensor) else list(item) for item in items]
    if len(rows) != batch or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise TargetError(
            f"targets for {len(rows)} samples of lengths {[len(row) for row in rows]} and a batch "
            f"of {batch}; give every sample a list of the same length"
        )
    return rows, True


def _indexed(index: Tensor, classes: int, dtype: torch.dtype, several: bool) -> Asked:
    seeds = [F.one_hot(column, classes).to(dtype) for column in index.unbind(1)]
    return Asked(seeds, index if several else index.squeeze(1), several)


def _derivative(target: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        value = target(leaf)
        if not isinstance(value, Tensor) or not value.requires_grad:
            raise TargetError("the target function must return a tensor computed from the logits")
        if value.shape not in ((logits.shape[0],), (logits.shape[0], 1)):
            raise TargetError(
                f"the target function returned shape {tuple(value.shape)}; expected one value a "
                f"sample: ({logits.shape[0]},)"
            )
        (seed,) = torch.autograd.grad(value.sum(), leaf)
    if not bool((seed != 0).any(1).all()):
        raise TargetError("the target function does not depend on the logits of every sample")
    return seed
