"""Linear maps by learned matrices: Linear layers, convolutions, any product with a constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from whyformer.engine.following import carried
from whyformer.engine.multiplying import multiply
from whyformer.engine.operations import Operation, Saved, Slots, adjoint
from whyformer.engine.rules.tables import Rule
from whyformer.engine.samples import Samples
from whyformer.errors import ModelError


class Learned(Operation):
    """A linear map by a constant: y = apply(x, weight) + bias."""

    kind = "learned"
    name = "learned"
    #: whose each row of the operand is; None: that was lost
    whose: Samples | None = None

    def __init__(
        self,
        call: Callable[[Tensor], Tensor],
        apply: Callable[[Tensor, Tensor], Tensor],
        weight: Tensor,
        bias: Tensor | None = None,
        reads_pixels: bool = False,
    ) -> None:
        self.call = call
        self._apply = apply
        self._weight = Saved(weight)
        self.bias = None if bias is None else bias.detach()
        self.reads_pixels = reads_pixels

    def run(self, *operands: Tensor) -> Tensor:
        (x,) = operands
        y = self.call(x).data  # fresh memory, which torch may have made a view of itself
        self.shape, self.whose = x.shape, carried(x)
        if not self.lean:
            self._x, self._y = Saved(x), Saved(y)
        return y

    @property
    def x(self) -> Tensor:
        if self.lean:
            raise ModelError(
                "this recording keeps no values, which rules of relevance need: record the input "
                "for a method that reads attention maps"
            )
        return self._x.get()

    @property
    def weight(self) -> Tensor:
        return self._weight.get("a weight")

    @property
    def multiplied(self) -> Tensor:
        """The weight as products on the way back take it."""
        return self.weight

    @property
    def samples(self) -> Samples:
        if self.whose is None:
            raise ModelError(
                f"it was lost which sample each value of a {self.name} map of shape "
                f"{tuple(self.shape)} belongs to, and the rule works sample by sample: ask for one "
                "sample at a time"
            )
        return self.whose

    @property
    def y(self) -> Tensor:
        return self._y.get(remake=lambda: self.call(self.x))

    def apply(self, x: Tensor, weight: Tensor) -> Tensor:
        """The map of other values, by another matrix, without the bias."""
        return self._apply(x, weight)

    def transpose(self, s: Tensor, weight: Tensor) -> Tensor:
        """The map's adjoint."""
        return adjoint(lambda x: self.apply(x, weight), s.new_zeros(self.shape), s)

    def unbiased(self, share: float) -> Tensor:
        """x w, with a share of the bias added: what subtracting the bias may have lost."""
        return self.apply(self.x, self.weight) + 1e-12

    def accumulate(self, total: Tensor, x: Tensor, weight: Tensor, factor: float) -> Tensor:
        return total.add_(self.apply(x, weight), alpha=factor)

    def evenly(self, slot: Tensor) -> Tensor:
        """Each output's slot in equal parts to all inputs that it reads."""
        reads = (self.weight != 0).to(self.weight.dtype)
        count = self.apply(slot.new_ones(self.shape), reads).clamp_(min=1)
        return self.transpose(slot / count, reads)

    def row_sum(self, values: Tensor) -> Tensor:
        """The sum over what one row of operands or outputs holds: here, all of a sample."""
        return values.sum(tuple(range(1, values.ndim)), keepdim=True)

    def gradient(self, *slots: Tensor | None) -> Slots:
        (slot,) = slots
        assert slot is not None
        return (self.transpose(slot, self.multiplied),)

    def constant_terms(self, *slots: Tensor | None) -> list[Tensor]:
        (slot,) = slots
        if self.bias is None or slot is None:
            return []
        spatial = self.weight.ndim - 2
        return [slot * self.bias.view(-1, *[1] * spatial)]


class Linear(Learned):
    """y = x W^T + b on rows: the rows that carry nothing backwards are skipped.

    A rule that is ``whole`` gets all of them.
    """

    name = "linear"

    def __init__(
        self,
        call: Callable[[Tensor], Tensor],
        weight: Tensor,
        bias: Tensor | None = None,
        reads_pixels: bool = False,
    ) -> None:
        super().__init__(call, torch.nn.functional.linear, weight, bias, reads_pixels)

    def apply(self, x: Tensor, weight: Tensor) -> Tensor:
        return multiply(x, weight.mT, self.current.fast)

    def transpose(self, s: Tensor, weight: Tensor) -> Tensor:
        return multiply(s, weight, self.current.fast)

    def unbiased(self, share: float) -> Tensor:
        if self.bias is None:
            return self.y + 1e-12
        return self.y + (self.bias.abs() * share).add_(1e-12).sub_(self.bias)

    @property
    def multiplied(self) -> Tensor:
        return self.current.narrowed(self.weight)

    def row_sum(self, values: Tensor) -> Tensor:
        return values.sum(-1, keepdim=True)

    def evenly(self, slot: Tensor) -> Tensor:
        return (slot.sum(-1, keepdim=True) / self.shape[-1]).expand(self.shape)

    def back(self, rule: Rule, *slots: Tensor | None) -> Slots:
        (slot,) = slots
        assert slot is not None
        whole = self.reads_pixels or getattr(rule, "whole", False)
        rows = None if whole else live_rows(slot)
        if rows is None:
            return rule(self, slot)
        (values,) = rule(LinearRows(self, rows), flat(slot)[rows])
        full = slot.new_zeros(self.shape)
        flat(full)[rows] = values
        return (full,)

    def back_abreast(self, rule: Rule, targets: Sequence[Slots]) -> list[Slots]:
        together = getattr(rule, "together", None)
        slots = [slot for (slot,) in targets if slot is not None]
        if together is None or len(slots) < len(targets) or live_rows(slots[0]) is not None:
            return super().back_abreast(rule, targets)
        return list(together(self, slots))


class LinearRows(Linear):
    """Some rows of a ``Linear``, for its rules to work on."""

    def __init__(self, whole: Linear, rows: Tensor) -> None:
        super().__init__(whole.call, whole.weight, whole.bias)
        self.current = whole.current
        self.lean = whole.lean
        self.shape = torch.Size((len(rows), whole.shape[-1]))
        if not self.lean:
            self._x, self._y = Saved(flat(whole.x)[rows]), Saved(flat(whole.y)[rows])

    def kept(self, key: str, make: Callable[[], Tensor]) -> Tensor:
        return make()


def flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, tensor.shape[-1])


def live_rows(slot: Tensor) -> Tensor | None:
    """The rows that are not all zero, or None when most are alive.

    Above the last attention only the pooled token's row carries anything. A device that would
    have to be waited for is not asked.
    """
    if waits(slot.device):
        return None
    rows = flat(slot)
    count = rows.shape[0]
    if count < 4 or (rows[-1, 0].item() and rows[count // 2, 0].item()):
        return None
    alive = rows.any(-1).nonzero().squeeze(-1)
    return alive if 2 * len(alive) <= count else None


def waits(device: torch.device) -> bool:
    """Whether to read a number is to wait until the device has done all that it was told."""
    return device.type != "cpu"
