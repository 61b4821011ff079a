"""Roll-outs through the graph: rows of prod_b (I + layer_b), read wherever one likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from whyformer.engine.operations import Operation
from whyformer.engine.rules.mass import ByLayer, Entering, mass_table
from whyformer.engine.trace import Start, Trace


class RollOut:
    """One question's roll-outs.

    What the asked place is itself, ``own``, is carried apart from what the layers mixed in: it
    says that a token stems from itself, and would drown the rest in rounding errors.
    """

    def __init__(self, trace: Trace, start: Start, sites: Sequence[Tensor]) -> None:
        self._trace, self._start, self._sites = trace, start, list(sites)
        self._mixes = [mix for attention in trace.seen.attention for mix in attention.mixes]
        outs = [mix.out for mix in self._mixes]
        found = trace.backward(mass_table(), start, [*outs, *self._sites])
        self._arrived = found[: len(outs)]
        self.own = found[len(outs) :]

    def mixed(self, layers: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The mass that arrives through the layers, one for each attention map or None."""
        arrived = [own for own in self._arrived if own is not None]
        return self._from_rows(ByLayer(self._by_product(layers)), arrived)

    def flow(
        self, layers: Sequence[Tensor | None], sizes: Sequence[Tensor | None], share: float
    ) -> list[Tensor | None]:
        """sum_b e_b prod_{l < b} (I + share A_l), output side on the left.

        What the asked rows r read enters by the layers, and is carried down by a share of
        attention. e_b is r layer_b where rows agree; ``sizes`` are layers of both signs without
        them.
        """
        attention = [a.weights.detach() for a in self._trace.seen.attention] if share else []
        own: dict[Operation, Tensor] = {
            mix.product: mass
            for mix, mass in zip(self._mixes, self._arrived, strict=True)
            if mass is not None
        }
        entering = Entering(
            self._by_product(layers),
            self._by_product(sizes),
            own,
            self._by_product(attention) if share else {},
            share,
        )
        return self._from_rows(entering, [torch.zeros_like(mass) for mass in own.values()])

    def divided(
        self, layers: Sequence[Tensor | None], row_sums: Mapping[Operation, Tensor]
    ) -> list[Tensor | None]:
        """All mass, own and mixed, rows divided by one more than their layer's sum."""
        table = mass_table(ByLayer(self._by_product(layers)), row_sums)
        return self._trace.backward(table, self._start, self._sites)

    def _from_rows(self, attention: ByLayer, masses: Sequence[Tensor]) -> list[Tensor | None]:
        """What arrives at the sites of masses at every A V that the asked rows reach."""
        pairs = zip(self._mixes, self._arrived, strict=True)
        reached = [mix.out for mix, own in pairs if own is not None]
        if not reached:
            return [None] * len(self._sites)
        start = list(zip(reached, masses, strict=True))
        return self._trace.backward(mass_table(attention), start, self._sites)

    def _by_product(self, layers: Sequence[Tensor | None]) -> dict[Operation, Tensor]:
        return {
            mix.product: mix.native(layer)
            for attention, layer in zip(self._trace.seen.attention, layers, strict=True)
            if layer is not None
            for mix in attention.mixes
        }


def carry(trace: Trace, masses: Start, sites: Sequence[Tensor]) -> list[Tensor | None]:
    """Masses put onto streams, handed down token by token, through no attention."""
    return trace.backward(mass_table(), masses, sites)
