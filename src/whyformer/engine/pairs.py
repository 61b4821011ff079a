"""Two forwards of one model, step by step: what each operation is at another input."""

from __future__ import annotations

from typing import Any

from whyformer.engine.operations import Operation
from whyformer.engine.trace import Trace
from whyformer.errors import ModelError


def paired(trace: Trace, other: Trace) -> dict[Operation, Operation]:
    """Each operation of a forward with the same one of another, by their order of recording."""
    mine, theirs = (sorted(t.operations, key=lambda op: op.number) for t in (trace, other))
    for one, two in zip(mine, theirs, strict=False):
        if step(one) != step(two):
            raise ModelError(
                f"the model's forward takes another way at the other input: {one.name} on "
                f"{sizes(one)} became {two.name} on {sizes(two)}; a method that compares the two "
                "forwards step by step cannot be asked"
            )
    if len(mine) != len(theirs):
        raise ModelError(
            f"the model's forward takes another way at the other input: {len(mine)} operations "
            f"became {len(theirs)}; a method that compares the two step by step cannot be asked"
        )
    return dict(zip(mine, theirs, strict=True))


def step(operation: Operation) -> tuple[Any, ...]:
    return type(operation), operation.name, operation.shapes


def sizes(operation: Operation) -> str:
    return " and ".join(str(tuple(shape)) for shape in operation.shapes)
