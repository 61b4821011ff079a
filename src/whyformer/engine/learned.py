"""Linear maps by learned matrices: Linear layers, convolutions, any product with a constant."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from whyformer.engine.operations import Operation, Saved, adjoint
from whyformer.engine.rules import Rules


class Learned(Operation):
    """A linear map by a constant: y = apply(x, weight) + bias."""

    name = "learned"

    def __init__(
        self,
        call: Callable[[Tensor], Tensor],
        apply: Callable[[Tensor, Tensor], Tensor],
        weight: Tensor,
        bias: Tensor | None = None,
        reads_pixels: bool = False,
    ) -> None:
        self.call = call
        self.apply = apply
        self._weight = weight.detach() if weight.is_inference() else Saved(weight)
        self.bias = None if bias is None else bias.detach()
        self.reads_pixels = reads_pixels

    def run(self, *operands: Tensor) -> Tensor:
        (x,) = operands
        y = self.call(x)
        self._x, self._y = Saved(x), Saved(y)
        return y

    @property
    def x(self) -> Tensor:
        return self._x.get()

    @property
    def weight(self) -> Tensor:
        return self._weight.get("a weight") if isinstance(self._weight, Saved) else self._weight

    @property
    def y(self) -> Tensor:
        return self._y.get(remake=lambda: self.call(self.x))

    def transpose(self, s: Tensor, weight: Tensor, scratch: str | None = None) -> Tensor:
        """The map's adjoint, in scratch memory if that is named."""
        return adjoint(lambda x: self.apply(x, weight), self.x, s)

    def unbiased(self, share: float) -> Tensor:
        """x w, with a share of the bias added: what subtracting the bias may have lost."""
        return self.apply(self.x, self.weight) + 1e-12

    def accumulate(self, total: Tensor, x: Tensor, weight: Tensor, factor: float) -> Tensor:
        return total.add_(self.apply(x, weight), alpha=factor)

    def absolute_weight(self) -> Tensor:
        return self.switch.absolute(self.weight, self.switch.scratch)

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        return (self.transpose(slots[0], self.weight),)

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        rule = rules.pixels if self.reads_pixels else rules.learned
        return (rule(self, slots[0], rules.divide_learned),)


class Linear(Learned):
    """y = x W^T + b on rows: the rows that carry nothing backwards are skipped."""

    name = "linear"

    def __init__(
        self,
        call: Callable[[Tensor], Tensor],
        weight: Tensor,
        bias: Tensor | None = None,
        reads_pixels: bool = False,
    ) -> None:
        super().__init__(call, torch.nn.functional.linear, weight, bias, reads_pixels)

    def transpose(self, s: Tensor, weight: Tensor, scratch: str | None = None) -> Tensor:
        if scratch is None:
            return s @ weight
        out = self.scratch(scratch, self.x)
        torch.mm(_flat(s), weight, out=_flat(out))
        return out

    def unbiased(self, share: float) -> Tensor:
        floor: Tensor | float = 1e-12
        if self.bias is not None:
            floor = (self.bias.abs() * share).add_(1e-12).sub_(self.bias)
        return torch.add(self.y, floor, out=self.scratch("z", self.y))

    def accumulate(self, total: Tensor, x: Tensor, weight: Tensor, factor: float) -> Tensor:
        flat = total.view(-1, total.shape[-1])
        flat.addmm_(x.reshape(-1, x.shape[-1]), weight.mT, alpha=factor)
        return total

    def gradient(self, *slots: Tensor) -> tuple[Tensor | None, ...]:
        rows = live_rows(slots[0])
        if rows is None:
            return (slots[0] @ self.weight,)
        return (self._scatter(rows, _flat(slots[0])[rows] @ self.weight),)

    def relevance(self, rules: Rules, *slots: Tensor) -> tuple[Tensor | None, ...]:
        rows = None if self.reads_pixels else live_rows(slots[0])
        if rows is None:
            return super().relevance(rules, *slots)
        part = LinearRows(self, rows)
        values = rules.learned(part, _flat(slots[0])[rows], rules.divide_learned)
        return (self._scatter(rows, values),)

    def _scatter(self, rows: Tensor, values: Tensor) -> Tensor:
        full = torch.zeros_like(self.x, memory_format=torch.contiguous_format)
        _flat(full)[rows] = values
        return full


class LinearRows(Linear):
    """Some rows of a ``Linear``, for its rules to work on."""

    def __init__(self, whole: Linear, rows: Tensor) -> None:
        super().__init__(whole.call, whole.weight, whole.bias)
        self.switch = whole.switch
        self._x, self._y = Saved(_flat(whole.x)[rows]), Saved(_flat(whole.y)[rows])

    def kept(self, key: str, make: Callable[[], Tensor]) -> Tensor:
        return make()


def _flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def live_rows(slot: Tensor) -> Tensor | None:
    """The rows that are not all zero, or None when most are alive.

    Above the last attention only the pooled token's row carries anything.
    """
    flat = _flat(slot)
    count = flat.shape[0]
    if count < 4 or (flat[-1, 0].item() and flat[count // 2, 0].item()):
        return None
    rows = flat.any(-1).nonzero().squeeze(-1)
    return rows if 2 * len(rows) <= count else None
