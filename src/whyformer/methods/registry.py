"""The list of methods. A method is a function of a ``Question``, registered by a decorator."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whyformer.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from whyformer.methods.question import Answer, Question


@dataclass(frozen=True)
class Method:
    """A way to answer a question; ``class_specific`` says whether the target matters to it."""

    name: str
    summary: str
    function: Callable[..., Answer]
    class_specific: bool = True

    @property
    def options(self) -> list[str]:
        """The names of the keywords that the method takes beside the question."""
        return list(inspect.signature(self.function).parameters)[1:]

    def __call__(self, question: Question, **options: Any) -> Answer:
        return self.function(question, **options)


_METHODS: dict[str, Method] = {}


def register(
    name: str, summary: str, *, class_specific: bool = True
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Add a method under a name, with one line that says what it does."""

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        _METHODS[name] = Method(name, summary, function, class_specific)
        return function

    return decorate


def methods() -> dict[str, Method]:
    """All registered methods by name: the built-in ones and those you registered."""
    package = importlib.import_module("whyformer.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"whyformer.methods.{module.name}")
    return dict(sorted(_METHODS.items()))


def get_method(name: str) -> Method:
    known = methods()
    if name not in known:
        raise UnknownNameError(f"unknown method {name!r}; {nearest(name, known)}")
    return known[name]
