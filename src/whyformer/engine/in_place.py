"""Operations in place: x.op_(y) as x = x.op(y), so that no value of the backward is overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whyformer.engine.following import carried, follow, mark
from whyformer.engine.names import IN_PLACE, NATIVE, TURNS

if TYPE_CHECKING:
    from whyformer.engine.recorder import Recorder


def in_place(rec: Recorder, name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """Run the ordinary form of the call, and make the caller's tensor its result."""
    if not args:
        key = next(key for key in ("input", "self", "x", "a") if key in kwargs)
        args, kwargs = (kwargs[key],), {k: v for k, v in kwargs.items() if k != key}
    target: Tensor = args[0]
    if name == "__setitem__" and rec.is_activation(target) and not target._is_view():
        copy = follow(target, target.clone())
        copy[args[1]] = args[2]
        assign(rec, target, copy)
        return None
    base = IN_PLACE.get(name, name[:-1])
    if name in TURNS:
        turned = rec.move(name[:-1], getattr(Tensor, name[:-1]), args, kwargs)
        return follow(turned, func(*args, **kwargs))
    holders = (Tensor, torch, torch.nn.functional)
    plain = base and next((getattr(h, base) for h in holders if hasattr(h, base)), None)
    if not base or not plain or name in NATIVE:
        return rec.cut(name, func(*args, **kwargs))
    if target._is_view() and not hasattr(target.grad_fn, "operation"):
        args = (follow(target, target.clone()), *args[1:])  # assign writes into the view
    result = rec.dispatch(base, plain, args, kwargs)
    return assign(rec, target, result)


def assign(rec: Recorder, target: Tensor, result: Tensor) -> Tensor:
    """Make the caller's tensor the result; a view of something larger is written through."""
    if hasattr(target.grad_fn, "operation") or not target._is_view():
        samples = carried(result)
        try:
            torch.utils.swap_tensors(target, result)
        except RuntimeError:  # held by a saved tensor or a weak reference
            return target.copy_(result)
        rec.seen.exchange(target, result)
        if samples is not None:
            mark(target, samples)
        return target
    return target.copy_(result)
