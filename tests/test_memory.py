"""Many inputs go through a model in parts that its memory holds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from whyformer.memory import TOGETHER, TOGETHER_ON_DEVICE, in_parts

CPU, META = torch.device("cpu"), torch.device("meta")


class Model:
    """Doubles its inputs; has room for so many of them at once."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.sizes: list[int] = []

    def __call__(self, part: Tensor) -> Tensor:
        if len(part) > self.room:
            raise torch.OutOfMemoryError("no room")
        self.sizes.append(len(part))
        return part * 2


@pytest.mark.parametrize(
    ("device", "room", "sizes"),
    [
        (CPU, 100, [TOGETHER] * 4 + [5]),
        (META, 100, [TOGETHER_ON_DEVICE, 5]),
        (META, 20, [16, 16, 5]),
        (CPU, 3, [2] * 18 + [1]),
        (CPU, 1, [1] * 37),
    ],
)
def test_parts_are_the_whole(device: torch.device, room: int, sizes: list[int]) -> None:
    model, inputs = Model(room), torch.arange(37.0)
    assert in_parts(model, inputs, device).equal(inputs * 2)
    assert model.sizes == sizes


def test_an_input_that_does_not_fit_alone_is_an_error() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        in_parts(Model(0), torch.zeros(4), CPU)
