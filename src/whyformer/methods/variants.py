"""Methods with options in one word: ``generic_attention:gradient=libra``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whyformer.errors import InputError, UnknownNameError, nearest

if TYPE_CHECKING:
    from whyformer.methods.registry import Method

#: between a method's name and its options, and between the options
SEPARATOR = ":"
WORDS = {"none": None, "true": True, "false": False}


def with_options(method: Method, spelled: str) -> Method:
    """The method with the options that are spelled "A=1:B=2", under the name that tells them."""
    name = f"{method.name}{SEPARATOR}{spelled}"
    options: dict[str, Any] = {}
    for part in spelled.split(SEPARATOR):
        option, sign, text = part.partition("=")
        if not (option and sign and text):
            raise InputError(f"{name!r}: expected NAME:OPTION=VALUE, several as NAME:A=1:B=2")
        if option not in method.options:
            known = nearest(option, method.options) if method.options else "it has none"
            raise UnknownNameError(f"{method.name} has no option {option!r}; {known}")
        if option in options:
            raise InputError(f"{name!r} gives {option!r} twice; expected each option once")
        parameter = inspect.signature(method.function).parameters[option]
        options[option] = read_value(text, parameter, method.name)
    return replace(method, name=name, function=functools.partial(method.function, **options))


def read_value(text: str, parameter: inspect.Parameter, method: str) -> Any:
    """A word as the option's default and annotation want it."""
    default = parameter.default
    if isinstance(default, str):
        nothing = text.lower() == "none" and "None" in str(parameter.annotation)
        return None if nothing else text
    value = literal(text)
    if isinstance(default, bool | int | float):
        wanted = type(default)
        if wanted is float and type(value) is int:
            return float(value)
        if type(value) is not wanted:
            raise InputError(
                f"{method}: {parameter.name}={text}; expected {wanted.__name__}, such as {default}"
            )
    return value


def literal(text: str) -> Any:
    """none, true, false, a whole number, a number, or else the text itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that somebody wrote, without the options that a variant gives it."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
