"""One file a method. A new file here, or a decorated function of yours, is a new method."""

from whyformer.methods.registry import Method, get_method, methods, register

__all__ = ["Method", "get_method", "methods", "register"]
