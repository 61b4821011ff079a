"""Everything that can go wrong, said in one sentence each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class WhyformerError(Exception):
    """Base of all errors that whyformer raises on purpose."""


class ModelError(WhyformerError):
    """The model cannot be explained as it is."""


class InputError(WhyformerError, ValueError):
    """The inputs do not fit the model, or hold NaN or infinity."""


class TargetError(WhyformerError, ValueError):
    """The class that was asked for does not exist."""


class UnknownNameError(WhyformerError, ValueError):
    """A method, preset or option that is not registered."""


class MethodError(WhyformerError):
    """A method of one's own failed, or answered what is no answer."""


class OutputError(WhyformerError, OSError):
    """A result could not be written; what was there before is untouched."""


class NumericalError(WhyformerError, ArithmeticError):
    """A map would have held NaN or infinity; it is not returned."""


#: names that hold a word, and names that are spelled like it, told of
MOST_HOLDING, MOST_CLOSE = 5, 3


def nearest(name: str, known: Iterable[str]) -> str:
    """A tail for an error message: what the name may have meant, or what there is.

    Names that hold it as a word come before those that are spelled like it, or one word of which
    is: "catt" may be "tabby, tabby cat".
    """
    options = [str(option) for option in known]
    word = re.compile(rf"(?<!\w){re.escape(name.strip())}(?!\w)", re.IGNORECASE)
    holding = [option for option in options if name.strip() and word.search(option)]
    if holding:
        more = f", or {len(holding) - MOST_HOLDING} more" if len(holding) > MOST_HOLDING else ""
        return f"did you mean {' or '.join(map(repr, holding[:MOST_HOLDING]))}{more}?"
    close = _spelled_like(name, options)[:MOST_CLOSE]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    shown = ", ".join(repr(option) for option in options[:12])
    return f"known: {shown}" + (", ..." if len(options) > 12 else "")


def _spelled_like(name: str, options: list[str]) -> list[str]:
    """The nearest first, by all of their letters or by those of one word."""
    spelled: dict[str, list[str]] = {}
    for option in options:
        folded = option.casefold()
        for part in {folded, *re.findall(r"[^\W_]+", folded)}:
            spelled.setdefault(part, []).append(option)
    close = difflib.get_close_matches(name.casefold(), spelled, cutoff=0.5)
    return list(dict.fromkeys(option for part in close for option in spelled[part]))


def first_line(error: BaseException) -> str:
    """The start of another library's message, without what it prints below and around it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    return text.splitlines()[0] if text else type(error).__name__
