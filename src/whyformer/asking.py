"""Call a method, and check its answer before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

from torch import Tensor

from whyformer.engine import GRADIENT, Start, Trace
from whyformer.engine.rules import BUILT_IN
from whyformer.errors import (
    InputError,
    MethodError,
    ModelError,
    NumericalError,
    UnknownNameError,
    WhyformerError,
    first_line,
    nearest,
)
from whyformer.methods import Method
from whyformer.methods.question import Answer, Question
from whyformer.methods.variants import written

T = TypeVar("T")


def call_method(method: Method, question: Question, options: dict[str, Any]) -> Answer:
    """The answer; what a method of one's own does wrong is told with its name and line."""
    unknown = sorted(set(options) - set(method.options))
    if unknown:
        raise UnknownNameError(
            f"{method.name} has no option {unknown[0]!r}; {nearest(unknown[0], method.options)}"
        )
    for name in set(options) & set(getattr(method.function, "keywords", {})):
        raise InputError(
            f"{name} is given twice: in {method.name!r} and as {name}={options[name]!r}"
        )
    answer = told_by_name(method, lambda: method(question, **options))
    check(answer, method, question)
    return answer


def told_by_name(method: Method, call: Callable[[], T]) -> T:
    """What the call returns; what goes wrong in one's own code is told with its name and line."""
    try:
        return call()
    except WhyformerError:
        raise
    except Exception as error:
        if method.built_in:
            raise
        raise MethodError(
            f"the method {method.name!r} failed ({last_line(error)}): "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error


def check(answer: Any, method: Method, question: Question) -> None:
    """A map of the wrong shape would be a picture like any other, and false."""
    made = f"the method {method.name!r} ({place_of(method)}) returned"
    if not isinstance(answer, Answer):
        raise MethodError(
            f"{made} {type(answer).__name__}; expected an Answer: question.pool(matrix), "
            "question.roll_out(layers) or Answer(relevance)"
        )
    if not isinstance(answer.relevance, Tensor) or not answer.relevance.is_floating_point():
        raise MethodError(f"{made} relevance that is no tensor of floating point numbers")
    for site, part in zip(question.sites, answer.parts, strict=False):
        expected = tuple(site.tokens.content.shape)
        if tuple(part.shape) != expected:
            raise MethodError(
                f"{made} relevance of shape {tuple(part.shape)}; expected {expected}: "
                "(batch, tokens), for every token, special ones included"
            )
    if len(answer.parts) != len(question.sites):
        raise MethodError(
            f"{made} relevance for {len(answer.parts)} of the model's {len(question.sites)} inputs"
        )
    reached = () if answer.input_relevance is None else (answer.input_relevance,)
    for part in (*answer.parts, *reached):
        if not bool(part.isfinite().all()):
            raise NumericalError(why_not_finite(part, method, question))


def why_not_finite(part: Tensor, method: Method, question: Question) -> str:
    preset, dtype = question.preset, str(part.dtype).removeprefix("torch.")
    asked = f"{method.name} with preset {preset.name!r}"
    if not method.built_in or preset not in BUILT_IN:
        return f"{asked} gave NaN or infinity in {dtype}; its map is not shown"
    advice = [f"use the {BUILT_IN[0].name!r} preset"] if preset is not BUILT_IN[0] else []
    advice += ["run the model in float64"] if dtype != "float64" else []
    advice = advice or ["use another method"]
    said = f"{asked} overflowed in {dtype}: its map would hold NaN or infinity"
    return f"{said}; {', or '.join(advice)}"


def place_of(method: Method) -> str:
    """The file and line where a method is written."""
    function = written(method.function)
    code = getattr(function, "__code__", None)
    if code is None:
        return type(function).__name__
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def last_line(error: BaseException) -> str:
    """The file and line that an exception came from."""
    passed = list(walk_tb(error.__traceback__))
    return f"{Path(passed[-1][0].f_code.co_filename).name}:{passed[-1][1]}" if passed else "unknown"


def refuse_independent(trace: Trace, start: Start) -> None:
    """A target that depends on no token has no explanation."""
    if not trace.seen.blocks:
        return
    for block in reversed(trace.seen.blocks):
        (slot,) = trace.backward(GRADIENT, start, [block.exit])
        if slot is not None:
            break
    if slot is not None and not bool(slot.any()):
        raise ModelError(
            "the target's logit depends on no token of sample 0: the classifier's weights are "
            "zero, as in a model whose head is not trained yet; load its weights, or give the head "
            "some"
        )
