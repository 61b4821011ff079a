"""The list of methods. A method is a function of a ``Question``, registered by a decorator."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whyformer.errors import InputError, UnknownNameError, nearest
from whyformer.methods.plugins import import_packages, run_file, source_of
from whyformer.methods.variants import SEPARATOR, with_options, written

if TYPE_CHECKING:
    from torch import Tensor

    from whyformer.methods.question import Answer, Question


Reach = Literal["any model", "one input", "any attention", "self-attention", "one sequence"]

#: where a method works that does not depend on how tokens attend
ANYWHERE: tuple[Reach, ...] = ("any model", "one input")


@dataclass(frozen=True)
class Facts:
    """What the table of methods says about one; pictures read ``signed``, nothing else does.

    ``cost`` counts forwards F and backwards B for one target. ``reads``: what it is computed
    from. ``signed``: relevance has both signs. ``complete``: the relevance of the input, with the
    bias terms, sums to the target. ``works`` on any model, on any that reads one input, on any
    attention (windows, several sequences), on self-attention (windows, but no cross-attention), or
    between the tokens of one sequence.
    """

    paper: str
    year: int
    cost: str
    reads: str
    signed: bool = False
    complete: bool = False
    works: Reach = "any attention"


@dataclass(frozen=True)
class Method:
    """A way to answer a question.

    ``class_specific`` says whether the target matters to it; a method that is ``on_request`` takes
    part in comparisons only where it is named; one without ``maps`` reads no attention maps, so
    that none has to be stored. ``needs`` names the package, and the extra of whyformer that brings
    it, without which the method cannot answer. ``remark`` says what maps, (maps, tokens), do not
    tell, as sentences.
    """

    name: str
    summary: str
    function: Callable[..., Answer]
    class_specific: bool = True
    on_request: bool = False
    maps: bool = True
    facts: Facts | None = None
    needs: str | None = None
    remark: Callable[[Tensor], list[str]] | None = None

    @property
    def options(self) -> list[str]:
        """The names of the keywords that the method takes beside the question."""
        return list(inspect.signature(self.function).parameters)[1:]

    def progress(self, shown: bool) -> dict[str, bool]:
        """The option that shows a bar, or keeps the method from it, where it has one."""
        given = getattr(self.function, "keywords", {})
        return {"progress": shown} if "progress" in self.options and "progress" not in given else {}

    @property
    def by_maps(self) -> bool:
        """Whether tokens are followed by attention maps alone, as far as is known."""
        return self.maps and (self.facts is None or self.facts.works not in ANYWHERE)

    @property
    def built_in(self) -> bool:
        return home_of(self.function).startswith(BUILT_IN)

    @property
    def file(self) -> Path | None:
        """The file that ``methods_from`` took it from."""
        source = source_of(home_of(self.function))
        return None if source is None else source.file

    def __call__(self, question: Question, **options: Any) -> Answer:
        return self.function(question, **options)


BUILT_IN = "whyformer.methods."
DEFAULT_METHOD = "transformer_attribution"
#: the name under which the method with the best figures is asked for, and that method
BEST, BEST_METHOD = "best", "witness"

_METHODS: dict[str, Method] = {}

#: methods whose package is not installed
_ABSENT: dict[str, Method] = {}


def register(
    name: str,
    summary: str | None = None,
    *,
    class_specific: bool = True,
    on_request: bool = False,
    maps: bool = True,
    needs: str | None = None,
    facts: Facts | None = None,
    remark: Callable[[Tensor], list[str]] | None = None,
) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Add a method under a name, with one line that says what it does, or its docstring's first.

    ``maps=False``: the method reads no attention maps. ``facts`` go into the table of methods.
    ``needs`` names a package, and the extra of whyformer that brings it: without the package the
    method is not listed, and asking for it says what to install. ``remark`` gets all maps,
    (maps, tokens), and returns sentences on what they do not tell.
    """

    if not isinstance(name, str):
        raise InputError('register takes a name: @whyformer.register("name", "what it does")')

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        said = summary or (inspect.getdoc(function) or "").partition("\n")[0]
        if not said:
            raise InputError(
                f"the method {name!r} has no summary; give one line that says what it does, or a "
                "docstring"
            )
        method = Method(
            name, said, function, class_specific, on_request, maps, facts, needs, remark
        )
        if needs is not None and importlib.util.find_spec(needs) is None:
            _ABSENT[name] = method
            return function
        if not method.built_in:
            import_built_in()
            if name in _METHODS and _METHODS[name].built_in:
                raise InputError(f"{name!r} is a method of whyformer; choose another name")
        _METHODS[name] = method
        return function

    return decorate


def methods() -> dict[str, Method]:
    """All registered methods by name: the built-in ones, packages', and those you registered."""
    import_built_in()
    import_packages()
    return dict(sorted(_METHODS.items()))


def absent_methods() -> dict[str, Method]:
    """Methods that would be there if the package that they need were installed."""
    known = methods()
    return {name: method for name, method in sorted(_ABSENT.items()) if name not in known}


def methods_from(path: str | Path) -> dict[str, Method]:
    """Run a Python file and return the methods that it registers.

    ``--methods-from FILE`` on the command line. A file may also register presets.
    """
    known, presets = methods(), registered_presets()
    run_file(path)
    brought = {name: m for name, m in methods().items() if m is not known.get(name)}
    if brought or any(p is not presets.get(n) for n, p in registered_presets().items()):
        return brought
    file = Path(path).expanduser().resolve()
    for absent in _ABSENT.values():
        if absent.file == file:
            raise _needs(absent)
    raise InputError(
        f"{path} registers no method and no preset; expected a function under "
        '@whyformer.register("name", "what it does")'
    )


def registered_presets() -> dict[str, Any]:
    """The presets, where the engine is loaded; listing methods alone does not load torch."""
    rules = sys.modules.get("whyformer.engine.rules")
    return {} if rules is None else dict(rules.PRESETS)


def import_built_in() -> None:
    package = importlib.import_module("whyformer.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{BUILT_IN}{module.name}")


def home_of(function: Callable[..., Any]) -> str:
    """The module that a method's function was written in."""
    return str(getattr(written(function), "__module__", ""))


def get_method(name: str) -> Method:
    """A registered method, or one with options: "generic_attention:gradient=libra".

    "best" is the method that measured best: `docs/results.md`.
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"a method is asked by its name, not by {type(name).__name__}")
    registered, separator, options = name.partition(SEPARATOR)
    if not separator or name in methods():
        return get_registered(name)
    return with_options(get_registered(registered), options)


def get_registered(name: str) -> Method:
    """A method by its own name alone, or the best one."""
    known = methods()
    if name == BEST and BEST not in known:
        name = BEST_METHOD
    if name in _ABSENT and name not in known:
        raise _needs(_ABSENT[name])
    if name not in known:
        raise UnknownNameError(
            f"unknown method {name!r}; {nearest(name, [BEST, *all_methods(), *absent_methods()])}"
        )
    return known[name]


def _needs(method: Method) -> UnknownNameError:
    return UnknownNameError(
        f"the method {method.name!r} needs {method.needs}, which is not installed: "
        f"pip install 'whyformer[{method.needs}]'"
    )


def default_methods() -> list[str]:
    """The paper's first, then by name; without those that answer on request only."""
    rest = [name for name, method in methods().items() if not method.on_request]
    return [DEFAULT_METHOD, *(name for name in rest if name != DEFAULT_METHOD)]


def all_methods() -> list[str]:
    """Those, and the ones on request behind them."""
    rest = [name for name, method in methods().items() if method.on_request]
    return [*default_methods(), *rest]
