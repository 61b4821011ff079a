"""Which code a method's results come from, so that those of older code are not mixed in."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import whyformer
from whyformer.engine import PRESETS, Table
from whyformer.engine.rules import BUILT_IN
from whyformer.methods import get_method
from whyformer.methods.plugins import source_of
from whyformer.methods.registry import home_of

PLAIN = (int, float, str, bool, bytes, type(None))


def digest_of(method: str) -> str:
    """The same for the same code: of the engine, and of the method's module, file or function."""
    found = get_method(method)
    own = of_function(found.function)
    if found.built_in:
        home = sys.modules[home_of(found.function)]
        own = "".join(of_module(module) for module in built_from(home))
    return digest(f"{of_engine()} {own}")


def rules_of(preset: str) -> dict[str, str]:
    """A setting for runs under a preset of one's own, whose rules may change."""
    if any(preset == known.name for known in BUILT_IN):
        return {}
    found = PRESETS[preset]
    tables = "".join(map(of_table, (found.attribution, found.lrp)))
    return {"rules": digest(f"{tables}{found.conventions}")}


def of_table(table: Table) -> str:
    """A table's rules: their names and parameters, and the code of those of one's own."""
    rules = [getattr(table, field.name) for field in fields(table) if field.name != "places"]
    rules += [part for place in table.places for part in place]
    return "".join(map(of_rule, rules))


def of_rule(rule: Any) -> str:
    if not is_dataclass(rule):
        return of_function(rule)
    own = not type(rule).__module__.startswith("whyformer.")
    return repr(rule) + (of_function(type(rule)) if own else "")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def of_function(function: Callable[..., Any]) -> str:
    """The source of a function of one's own, and the plain values that it was made with."""
    if isinstance(function, functools.partial):
        given = _plain(function.args) + _plain(tuple(sorted(function.keywords.items())))
        return of_function(function.func) + given
    file = source_of(getattr(function, "__module__", ""))
    if file is not None:
        return file.text
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        kind = function if inspect.isroutine(function) else type(function)
        return f"{kind.__module__}.{kind.__qualname__}"
    return source + _plain(tuple(sorted(inspect.getclosurevars(function).nonlocals.items())))


def built_from(module: ModuleType) -> list[ModuleType]:
    """A built-in method's module, and the methods' modules that it takes something from."""
    names = {getattr(value, "__module__", None) for value in vars(module).values()}
    near = {name for name in names if name and name.startswith("whyformer.methods.")}
    return [sys.modules[name] for name in sorted({*near, module.__name__})]


@functools.cache
def of_engine() -> str:
    package = Path(whyformer.__file__).parent
    beside = ("tokens", "sites", "layout", "pooling", "targets")
    paths = sorted((package / "engine").rglob("*.py"))
    paths += [package / f"{name}.py" for name in beside]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


@functools.cache
def of_module(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def _plain(value: Any) -> str:
    """What stays the same from call to call and from process to process, of a value."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, tuple):
        return "(" + ",".join(_plain(part) for part in value) + ")"
    return type(value).__qualname__
