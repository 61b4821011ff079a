"""One file a method. A new file here, or a decorated function of yours, is a new method."""

from whyformer.methods.registry import (
    BEST,
    BEST_METHOD,
    DEFAULT_METHOD,
    Facts,
    Method,
    absent_methods,
    all_methods,
    default_methods,
    get_method,
    get_registered,
    methods,
    methods_from,
    register,
)

__all__ = [
    "BEST",
    "BEST_METHOD",
    "DEFAULT_METHOD",
    "Facts",
    "Method",
    "absent_methods",
    "all_methods",
    "default_methods",
    "get_method",
    "get_registered",
    "methods",
    "methods_from",
    "register",
]
