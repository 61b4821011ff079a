"""The list of methods. A method is a function of a ``Question``, registered by a decorator."""

from __future__ import annotations

import importlib
import importlib.util
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
    """A way to answer a question.

    ``class_specific`` says whether the target matters to it; a method that is ``on_request`` takes
    part in comparisons only where it is named.
    """

    name: str
    summary: str
    function: Callable[..., Answer]
    class_specific: bool = True
    on_request: bool = False

    @property
    def options(self) -> list[str]:
        """The names of the keywords that the method takes beside the question."""
        return list(inspect.signature(self.function).parameters)[1:]

    def __call__(self, question: Question, **options: Any) -> Answer:
        return self.function(question, **options)


DEFAULT_METHOD = "transformer_attribution"

_METHODS: dict[str, Method] = {}

#: methods whose package is not installed, and the extra of whyformer that brings it
_ABSENT: dict[str, str] = {}


def register(
    name: str,
    summary: str,
    *,
    class_specific: bool = True,
    on_request: bool = False,
    needs: str | None = None,
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Add a method under a name, with one line that says what it does.

    ``needs`` names a package, and the extra of whyformer that brings it: without the package the
    method is not listed, and asking for it says what to install.
    """

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        if needs is not None and importlib.util.find_spec(needs) is None:
            _ABSENT[name] = needs
            return function
        _METHODS[name] = Method(name, summary, function, class_specific, on_request)
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
    if name in _ABSENT and name not in known:
        raise UnknownNameError(
            f"the method {name!r} needs {_ABSENT[name]}, which is not installed: "
            f"pip install 'whyformer[{_ABSENT[name]}]'"
        )
    if name not in known:
        raise UnknownNameError(f"unknown method {name!r}; {nearest(name, known)}")
    return known[name]


def default_methods() -> list[str]:
    """The paper's first, then by name; without those that answer on request only."""
    rest = [name for name, method in methods().items() if not method.on_request]
    return [DEFAULT_METHOD, *(name for name in rest if name != DEFAULT_METHOD)]


def all_methods() -> list[str]:
    """Those, and the ones on request behind them."""
    rest = [name for name, method in methods().items() if method.on_request]
    return [*default_methods(), *rest]
