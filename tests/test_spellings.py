"""Every operator that has a handler, in every way that torch lets it be called.

A spelling is whatever torch itself accepts: the names of arguments come from the operators' own
schemas and from Python's signatures, and each call is first tried without the engine. What
it gives, and its gradients, are what the recording has to give.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves

from operator_samples import SAMPLES, Sample
from probe import recorded
from whyformer.engine import GRADIENT, PRESETS
from whyformer.engine.handlers import HANDLERS
from whyformer.engine.names import POINTWISE as ACTIVATIONS

Call = Callable[[Sequence[Any]], Any]


# -- sample arguments


#: operators that have no function of their name
SYMBOLS: dict[str, tuple[Callable[..., Any], ...]] = {
    "add": (operator.add, operator.iadd),
    "sub": (operator.sub, operator.isub),
    "mul": (operator.mul, operator.imul),
    "div": (operator.truediv, operator.itruediv),
    "pow": (operator.pow, operator.ipow),
    "matmul": (operator.matmul, operator.imatmul),
    "neg": (operator.neg,),
    "abs": (operator.abs,),
}
#: where a method takes its tensor from, if not from the first place
METHODS = {"where": (1, 0, 2)}
#: names that torch takes beside those of the schema
ALSO = {"dim": "axis", "keepdim": "keepdims", "self": "x", "other": "x2"}


# -- spellings


def names_of(name: str, function: Any) -> list[list[str]]:
    """The names of a function's arguments, by each of its signatures."""
    found = []
    try:
        found.append(list(inspect.signature(function).parameters))
    except (TypeError, ValueError):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            arguments = getattr(packet, overload)._schema.arguments
            found.append([argument.name for argument in arguments if not argument.kwarg_only])
    same = [[{"self": "input"}.get(key, key) for key in names] for names in found]
    other = [[ALSO.get(key, key) for key in names] for names in found]
    return [*found, *same, *other]


def calls(name: str, function: Any, count: int, first: int = 0) -> Iterator[tuple[str, Any]]:
    """By position, by keyword, and by both: (what it looks like, how many places, the names)."""
    yield "positional", (count, ())
    done = set()
    for names in names_of(name, function):
        for split in sorted({first, first + 1, count - 1} & set(range(count))):
            named = tuple(names[split:count])
            if len(names) >= count and (split, named) not in done:
                done.add((split, named))
                yield ", ".join(["*"] * split + [f"{key}=" for key in named]), (split, named)


def written(function: Callable[..., Any], places: int, names: Sequence[str], **more: Any) -> Call:
    def call(args: Sequence[Any]) -> Any:
        named = dict(zip(names, args[places:], strict=True))
        return function(*args[:places], **named, **more)

    return call


def into(call: Call, fresh: bool) -> Call:
    """A call that writes into its first argument, and what is there afterwards."""

    def wrapped(args: Sequence[Any]) -> Any:
        target = args[0] * 1 if fresh else args[0].clone()[...]
        returned = call([target, *args[1:]])
        return target if returned.shape == target.shape else returned

    return wrapped


def spellings(name: str, given: Sample) -> Iterator[tuple[str, Call]]:
    """Every way to call an operator that might be one; not all are."""
    count = len(given.args)
    for place, holder in (("torch", torch), ("F", F), ("aten", torch.ops.aten)):
        function = getattr(holder, name, None)
        if function is None:
            continue
        for label, (split, named) in calls(name, function, count):
            yield f"{place}.{name}({label})", written(function, split, named, **given.kwargs)
    for symbol in SYMBOLS.get(name, ()) if not given.kwargs else ():
        call = written(symbol, count, ())
        if symbol.__name__.startswith("i"):
            for fresh in (True, False):
                yield f"{symbol.__name__}, {'fresh' if fresh else 'view'}", into(call, fresh)
        else:
            yield symbol.__name__, call
    order = METHODS.get(name, range(count))
    method = getattr(Tensor, name, None)
    if method is not None:
        for label, (split, named) in calls(name, method, count, 1):
            call = written(method, split, named, **given.kwargs)
            yield f"x.{name}({label})", lambda args, call=call: call([args[i] for i in order])
        if name == "where":  # the schema's order is not the method's
            yield (
                "x.where(condition=, other=)",
                lambda args: args[1].where(condition=args[0], other=args[2]),
            )
    yield from in_place(name, given)


def in_place(name: str, given: Sample) -> Iterator[tuple[str, Call]]:
    if not isinstance(given.args[0], Tensor):
        return
    found: list[tuple[str, Call]] = []
    count = len(given.args)
    for place, holder in (("torch", torch), ("F", F), ("x", Tensor)):
        function = getattr(holder, f"{name}_", None)
        if function is not None:
            for label, (split, named) in calls(name, function, count, 1):
                call = written(function, split, named, **given.kwargs)
                found.append((f"{place}.{name}_({label})", call))
    function = getattr(F, name, None)
    signature = inspect.signature(function).parameters if inspect.isfunction(function) else {}
    if "inplace" in signature:
        call = written(function, count, (), inplace=True, **given.kwargs)
        found.append((f"F.{name}(..., inplace=True)", call))
        middle = [p.default for p in list(signature.values())[count:-1]]
        if list(signature)[-1] == "inplace":
            call = lambda args: function(*args, *middle, True, **given.kwargs)  # noqa: E731
            found.append((f"F.{name}(..., True)", call))
    for label, call in found:
        yield label, into(call, True)
        if "=" not in label:
            yield f"{label}, view", into(call, False)


# -- without the engine, and with it


def flat(result: Any) -> Tensor:
    """All that a call returned in one row."""
    parts = [part for part in tree_leaves(result) if isinstance(part, Tensor)]
    return torch.cat([part.reshape(-1) for part in parts if part.is_floating_point()])


def part_of(call: Call, given: Sample, chosen: Sequence[int]) -> Callable[..., Tensor]:
    """A call as a part of a model that has the chosen arguments as its inputs, in rows."""

    def part(*rows: Tensor) -> Tensor:
        args = [value.clone() if isinstance(value, Tensor) else value for value in given.args]
        for place, row in zip(chosen, rows, strict=True):
            args[place] = row.view(given.args[place].shape)
        torch.default_generator.manual_seed(0)
        return flat(call(args)).unsqueeze(0)

    return part


@dataclass
class Eager:
    output: Tensor
    seed: Tensor
    gradients: list[Tensor]


def eager(part: Callable[..., Tensor], rows: Sequence[Tensor]) -> Eager | None:
    """What torch gives, or None where it does not take such a call."""
    leaves = [row.clone().requires_grad_() for row in rows]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            output = part(*(leaf.clone() for leaf in leaves))
        seed = torch.linspace(-1, 1, output.numel()).to(output).view_as(output)
        if not output.requires_grad:
            return None
        found = torch.autograd.grad(output, leaves, seed, allow_unused=True)
    except (TypeError, RuntimeError, ValueError, IndexError, NotImplementedError, AttributeError):
        return None
    gradients = [torch.zeros_like(x) if g is None else g for x, g in zip(rows, found, strict=True)]
    return Eager(output.detach(), seed, gradients)


def close(found: Tensor, expected: Tensor, name: str) -> None:
    """celu_ differentiates by its result, and torch's own two ways differ by 1e-9."""
    size = 1e-10 if found.dtype is torch.float64 else 1e-4
    size = 1e-8 if name == "celu" else size
    assert found.shape == expected.shape
    error = (found - expected).abs()
    assert bool((error <= size * (1 + expected.abs())).all()), f"differs by {float(error.max())}"


#: what was put out, and the relevance that came in
Known = list[tuple[Tensor, list[Tensor]]]


def check(name: str, call: Call, given: Sample, chosen: Sequence[int], known: Known) -> bool:
    """Compare one call with eager autograd, and its relevance with that of other spellings."""
    rows = [given.args[place].reshape(1, -1) for place in chosen]
    part = part_of(call, given, chosen)
    expected = eager(part, rows)
    if expected is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace, roots = recorded(part, *rows)
    if name in ACTIVATIONS and len(chosen) == 1 and chosen[0] == given.subject:
        assert not trace.seen.fallbacks
    start = [(trace.output, expected.seed)]
    close(trace.output.detach(), expected.output, name)
    found = trace.backward(GRADIENT, start, roots)
    for slot, gradient in zip(found, expected.gradients, strict=True):
        close(torch.zeros_like(gradient) if slot is None else slot, gradient, name)
    relevance = [
        torch.zeros_like(row) if slot is None else slot
        for row, slot in zip(
            rows, trace.backward(PRESETS["paper"].attribution, start, roots), strict=True
        )
    ]
    for output, others in known:
        if output.shape == expected.output.shape and torch.equal(output, expected.output):
            for mine, other in zip(relevance, others, strict=True):
                close(mine, other, "relevance")
            return True
    known.append((expected.output, relevance))
    return True


@pytest.mark.parametrize("name", sorted(HANDLERS))
def test_spelling(name: str) -> None:
    """Output and gradient are those of eager autograd; spellings of one call agree."""
    assert name in SAMPLES, f"{name} has a handler and no sample arguments in this file"
    tried, wrong, forms = 0, [], set()
    for number, given in enumerate(SAMPLES[name]):
        known: dict[tuple[int, ...], Known] = {}
        for label, call in spellings(name, given):
            if given.form in forms and ("=" in label or "view" in label):
                continue  # other shapes of arguments that were spelled already
            for chosen in given.choices():
                try:
                    tried += check(name, call, given, chosen, known.setdefault(chosen, []))
                except Exception as error:
                    tried += 1
                    reason = " ".join(f"{type(error).__name__}: {error}".split())
                    wrong.append(f"{label}, sample {number}, activations {chosen}: {reason[:200]}")
        forms.add(given.form)
    assert tried, "torch takes none of these calls"
    assert not wrong, "\n".join([f"{len(wrong)} of {tried}", *wrong[:12]])
