"""A call's arguments by the operator's own schema: positional, keyword and method are one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

#: torch's functions take these names for their operators' arguments, as NumPy does
ALIASES = {"input": "self", "axis": "dim", "keepdims": "keepdim", "x": "self", "x2": "other"}


@functools.cache
def overloads(name: str) -> tuple[tuple[tuple[str, Any], ...], ...]:
    """The positional arguments, with defaults, of every overload of an operator."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return ()
    found = []
    for overload in packet.overloads():
        schema = getattr(packet, overload)._schema
        found.append(
            tuple(
                (argument.name, argument.default_value if argument.has_default_value() else None)
                for argument in schema.arguments
                if not argument.kwarg_only
            )
        )
    return tuple(found)


@functools.cache
def keywords(name: str) -> frozenset[str]:
    """Arguments that some overload takes by name alone: alpha has a place in others."""
    packet = getattr(torch.ops.aten, name, None)
    schemas = [getattr(packet, o)._schema for o in packet.overloads()] if packet else []
    return frozenset(a.name for s in schemas for a in s.arguments if a.kwarg_only)


def positional(
    func: Callable[..., Any], name: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Keywords put in the places that the schema gives them; those without a place stay.

    A function that is written in Python has no schema: handlers have its own names.
    """
    if not kwargs or inspect.isfunction(func):
        return tuple(args), dict(kwargs)
    known_names = {argument for arguments in overloads(name) for argument, _ in arguments}
    named = {
        key if key in known_names else ALIASES.get(key, key): key
        for key in kwargs
        if key not in keywords(name)
    }
    best: Sequence[tuple[str, Any]] = ()
    most = 0
    for arguments in overloads(name):
        if method_of(func):  # its tensor stands first: input.where(condition, other)
            arguments = tuple(sorted(arguments, key=lambda pair: pair[0] != "self"))
        known = sum(argument in named for argument, _ in arguments[len(args) :])
        if known > most:
            best, most = arguments, known
    if not most:
        return tuple(args), dict(kwargs)
    rest, filled = dict(kwargs), list(args)
    open_places = best[len(args) :]
    last = max(i for i, (argument, _) in enumerate(open_places) if argument in named)
    for argument, default in open_places[: last + 1]:
        filled.append(rest.pop(named[argument]) if argument in named else default)
    return tuple(filled), rest


def method_of(func: Callable[..., Any]) -> bool:
    """Whether a function is a tensor's method, ``Tensor.where`` and not ``torch.where``."""
    return getattr(torch.Tensor, getattr(func, "__name__", ""), None) is func
