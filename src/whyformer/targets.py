"""What was asked for: from an index, a label, lists of them or a function to weights of outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from whyformer.engine import Start
from whyformer.errors import ModelError, TargetError, first_line, nearest


@dataclass(frozen=True)
class Contrast:
    """Why one target rather than another: y_a - y_b."""

    a: Any
    b: Any


def contrast(a: Any, b: Any) -> Contrast:
    """The target "why ``a`` rather than ``b``", each an index, a label or a tuple."""
    return Contrast(a, b)


Target = (
    int | str | tuple[Any, ...] | Contrast | Tensor | Sequence[Any] | Callable[[Any], Tensor] | None
)


@dataclass(frozen=True, eq=False)
class ResolvedTarget:
    """Targets of a batch. ``starts``: for each target of a sample, dy/doutput of the batch.

    ``index`` holds the classes where the targets are classes, ``position`` their places in the
    output: (batch,), or (batch, targets) where ``several`` were asked for; ``words`` says what else
    was asked of the first sample, target by target.
    """

    starts: list[Start]
    index: Tensor | None
    position: Tensor | None
    several: bool
    words: tuple[str, ...] = ()


class Resolver:
    """Reads targets for one recorded output, (batch, classes) or (batch, ..., classes).

    ``last`` is the place of every sample's last real token, for outputs with one row a token.
    ``returned`` is what a function is given.
    """

    def __init__(
        self, output: Tensor, returned: Any, labels: Sequence[str] | None, last: Sequence[int]
    ) -> None:
        self.output, self.returned, self.labels, self.last = output, returned, labels, last
        self.batch, self.classes = len(output), output.shape[-1]

    def resolve(self, target: Target) -> ResolvedTarget:
        """An int, a label, a tuple or a contrast means every sample; a flat list, one for each
        sample; nested lists, or a 2-d tensor, several for each; one nested list, for all."""
        target = listed(target)
        if callable(target):
            return ResolvedTarget([self.derivative(target)], None, None, several=False)
        if not isinstance(target, list):
            return self.of_rows([[target]] * self.batch, several=False)
        rows, several = self.rows(target)
        return self.of_rows(rows, several)

    def rows(self, items: list[Any]) -> tuple[list[list[Any]], bool]:
        if not items:
            raise TargetError("the list of targets is empty; give at least one class, or None")
        items = [listed(item) for item in items]
        nested = [isinstance(item, list) for item in items]
        if nested == [True]:
            items, nested = items * self.batch, nested * self.batch
        if len(items) != self.batch:
            hint = "" if any(nested) else f": [{items!r}]" if self.batch == 1 else ""
            raise TargetError(
                f"{len(items)} targets for a batch of {self.batch}; give one for each sample, or "
                f"a list of lists, several for each sample{hint}"
            )
        if not any(nested):
            return [[item] for item in items], False
        rows = [item if isinstance(item, list) else [item] for item in items]
        if len({len(row) for row in rows}) != 1 or not rows[0]:
            raise TargetError(
                f"targets for {len(rows)} samples of lengths {[len(row) for row in rows]}; give "
                "every sample a list of the same length"
            )
        return rows, True

    def of_rows(self, rows: list[list[Any]], several: bool) -> ResolvedTarget:
        seeds = [torch.zeros_like(self.output) for _ in rows[0]]
        places: list[list[tuple[int, ...] | None]] = []
        for sample, row in enumerate(rows):
            places.append([])
            for seed, item in zip(seeds, row, strict=True):
                if isinstance(item, Contrast):
                    towards, against = self.place(item.a, sample), self.place(item.b, sample)
                    if towards == against:
                        raise TargetError(
                            f"{self.in_words(item)}: that is one and the same; name another one"
                        )
                    seed[(sample, *towards)], seed[(sample, *against)] = 1, -1
                    places[-1].append(None)
                else:
                    place = self.place(item, sample)
                    seed[(sample, *place)] = 1
                    places[-1].append(place)
        starts: list[Start] = [[(self.output, seed)] for seed in seeds]
        if any(place is None for row in places for place in row):
            words = tuple(self.in_words(item) for item in rows[0])
            return ResolvedTarget(starts, None, None, several, words)
        index = torch.tensor([[p[-1] for p in row if p] for row in places])
        position = None
        if self.output.ndim == 3:
            position = torch.tensor([[p[0] for p in row if p] for row in places])
            position = position if several else position.squeeze(1)
        index = index if several else index.squeeze(1)
        return ResolvedTarget(starts, index.to(self.output.device), position, several)

    def in_words(self, item: Any) -> str:
        """What the first sample was asked about, for people."""
        if isinstance(item, Contrast):
            return f"{self.in_words(item.a)} rather than {self.in_words(item.b)}"
        *before, index = self.place(item, 0)
        name = self.labels[index] if self.labels else str(index)
        return f"{name} at {', '.join(map(str, before))}" if isinstance(item, tuple) else name

    def place(self, item: Any, sample: int) -> tuple[int, ...]:
        """The index of one target in one sample's output."""
        shape = self.output.shape[1:]
        if item is None:
            return self.highest(sample)
        if not isinstance(item, tuple):
            head = self.default_position(sample)
            return (*head, class_index(item, self.classes, self.labels))
        if len(item) != len(shape):
            raise TargetError(
                f"target {item!r} for an output of shape {tuple(shape)} a sample; give "
                f"{len(shape)} {'number' if len(shape) == 1 else 'numbers'}"
            )
        found = []
        for axis, (part, size) in enumerate(zip(item, shape, strict=True)):
            labels = self.labels if axis == len(shape) - 1 else None
            if axis < len(shape) - 1 and isinstance(part, int) and not -size <= part < size:
                raise TargetError(
                    f"position {part} of an output with {size}; choose from 0 to {size - 1}"
                )
            found.append(class_index(part, size, labels))
        return tuple(found)

    def default_position(self, sample: int) -> tuple[int, ...]:
        if self.output.ndim == 2:
            return ()
        if self.output.ndim == 3 and self.last:
            return (min(self.last[sample], self.output.shape[1] - 1),)
        shape = tuple(self.output.shape[1:])
        raise TargetError(
            f"the output has shape {shape} a sample; give its place and class as a tuple of "
            f"{len(shape)}, or a function of the output"
        )

    def highest(self, sample: int) -> tuple[int, ...]:
        """The predicted class; of one row a token, the last real token's; else of all."""
        values = self.output.detach()[sample]
        if values.ndim == 1 or (values.ndim == 2 and self.last):
            head = self.default_position(sample)
            return (*head, int(values[head].argmax()))
        flat = int(values.flatten().argmax())
        return tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), values.shape))

    def derivative(self, target: Callable[[Any], Tensor]) -> Start:
        """dy/doutput of a function of the whole output, for each tensor that it read."""
        leaves, spec = tree_flatten(self.returned)
        places = [
            i for i, t in enumerate(leaves) if isinstance(t, Tensor) and t.is_floating_point()
        ]
        with torch.inference_mode(False), torch.enable_grad():
            own = {i: leaves[i].detach().clone().requires_grad_() for i in places}
            given = tree_unflatten([own.get(i, leaf) for i, leaf in enumerate(leaves)], spec)
            try:
                value = target(given)
            except (TypeError, IndexError, KeyError, AttributeError, RuntimeError) as error:
                raise TargetError(
                    f"the target function failed on {type(given).__name__}, the model's whole "
                    f"output: {type(error).__name__}: {first_line(error)}; read the logits as "
                    "output.logits, or give Explainer(model, output='logits')"
                ) from None
            if not isinstance(value, Tensor) or not value.requires_grad:
                raise TargetError(
                    "the target function must return a tensor computed from the model's output"
                )
            if value.shape not in ((self.batch,), (self.batch, 1)):
                raise TargetError(
                    f"the target function returned shape {tuple(value.shape)}; expected one value "
                    f"a sample: ({self.batch},)"
                )
            read = [i for i in places if leaves[i].requires_grad] or places
            slots = torch.autograd.grad(value.sum(), [own[i] for i in read], allow_unused=True)
        start = [(leaves[i], slot) for i, slot in zip(read, slots, strict=True) if slot is not None]
        depends = [slot.flatten(1).any(1) for _, slot in start if len(slot) == self.batch]
        if not depends or not bool(torch.stack(depends).any(0).all()):
            raise TargetError("the target function does not depend on the logits of every sample")
        return start


def listed(item: Any) -> Any:
    """Tensors and arrays as lists of numbers, or as one number."""
    return item.tolist() if hasattr(item, "tolist") else item


def class_index(item: Any, classes: int, labels: Sequence[str] | None) -> int:
    if isinstance(item, str):
        return _label_index(item, labels)
    if isinstance(item, bool) or not isinstance(item, int):
        raise TargetError(
            f"target {item!r} is a {type(item).__name__}; give a class index, a label, a tuple "
            "(position, class), a list of them, or a function of the output"
        )
    if not -classes <= item < classes:
        raise TargetError(f"class {item} of a model with {classes}; choose from 0 to {classes - 1}")
    return item % classes


def from_word(given: str, labels: Sequence[str] | None) -> int | str:
    """A target as it was typed: labels stay words; a whole number that is no label is an index."""
    if given in (labels or []) or not re.fullmatch(r"-?[0-9]{1,99}", given):
        return given
    if given.startswith("-"):
        raise TargetError(f"class {given}: classes are counted from 0")
    return int(given)


def place_from_word(given: str) -> int | str:
    """A position as it was typed: a number, or a word of the input."""
    return int(given) if re.fullmatch(r"-?[0-9]{1,9}", given) else given


def label_list(labels: Mapping[int, str] | Sequence[str] | None) -> list[str] | None:
    """Labels by index, from a list or from a Hugging Face ``id2label``."""
    if labels is None:
        return None
    if isinstance(labels, Mapping):
        return [str(labels[key]) for key in sorted(labels, key=int)]
    return [str(label) for label in labels]


def fitting_labels(labels: list[str] | None, given: bool, classes: int) -> list[str] | None:
    """Labels of a model with so many classes; those that nobody gave may be too many or too few."""
    if labels is None or len(labels) == classes:
        return labels
    if given:
        raise ModelError(f"{len(labels)} labels for a model with {classes} classes")
    return None


def _label_index(name: str, labels: Sequence[str] | None) -> int:
    if labels is None:
        raise TargetError(
            f"label {name!r} was asked for but the model has no labels; give a class index, or "
            "Explainer(model, labels=[...])"
        )
    found = labelled(name, labels)
    if len(found) == 1:
        return found[0]
    if found:
        options = ", ".join(f"{i} {labels[i]!r}" for i in found)
        raise TargetError(f"label {name!r} names several classes: {options}; give the index")
    raise TargetError(f"no label {name!r}; {nearest(name, labels)}")


def labelled(name: str, labels: Sequence[str]) -> list[int]:
    """The classes of that label, or else those that have the name among their synonyms."""
    wanted = name.casefold().strip()
    exact = [i for i, label in enumerate(labels) if label == name]
    return exact or [i for i, label in enumerate(labels) if wanted in _synonyms(label)]


def _synonyms(label: str) -> set[str]:
    """ImageNet's labels list synonyms: "tabby, tabby cat" is either."""
    whole = label.casefold()
    return {whole, *(part.strip() for part in whole.split(","))}
