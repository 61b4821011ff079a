"""Backwards that go down a model together, and hold no more than one block's maps."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from whyformer.engine import Trace
from whyformer.methods.question import Question
from zoo import Block

LAYERS = 5


class Encoder(nn.Module):
    """Five blocks; ``far``: the last reads the first's output beside the stream."""

    def __init__(self, far: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block(8, 2, "matmul") for _ in range(LAYERS))
        self.head, self.far = nn.Linear(8, 3), far

    def forward(self, x: Tensor) -> Tensor:
        x = first = self.blocks[0](x)
        for block in self.blocks[1:]:
            x = block(x)
        return self.head((x + first.tanh() if self.far else x)[:, 0])


def question(model: nn.Module, remember: bool = False) -> Question:
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    recording = whyformer.Explainer(model.double().eval()).record(x)
    if not remember:
        recording._memory = None
    (start,) = recording._resolve(1).starts
    return recording._question(whyformer.engine.PRESETS["stable"], start)


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many maps that backwards found are alive."""
    found: list[weakref.ref[Tensor]] = []
    plain = Trace.backward

    def watched(self: Trace, *args: Any, **kwargs: Any) -> list[Tensor | None]:
        slots = plain(self, *args, **kwargs)
        maps = {tuple(a.weights.shape) for a in self.seen.attention}
        found.extend(weakref.ref(s) for s in slots if s is not None and tuple(s.shape) in maps)
        return slots

    monkeypatch.setattr(Trace, "backward", watched)
    return lambda: sum(ref() is not None for ref in found)


def test_no_more_than_one_blocks_maps_are_held(alive: Callable[[], int]) -> None:
    asked = question(Encoder())
    seen = 0
    for maps in asked.blocks():
        assert alive() <= 2  # its gradient and its relevance
        assert maps.gradient.any()
        assert maps.relevance.any()
        seen += 1
        del maps
    assert seen == LAYERS
    assert alive() == 0


@pytest.mark.parametrize("method", ["transformer_attribution", "generic_attention"])
def test_methods_hold_no_more_than_one_blocks_maps(
    method: str, alive: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    plain = torch.Tensor.clamp_

    def counted(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        nonlocal most
        most = max(most, alive())
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "clamp_", counted)
    model = Encoder().double().eval()
    whyformer.Explainer(model)(torch.randn(2, 6, 8, dtype=torch.float64), 1, method)
    assert 1 <= most <= 2


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("remember", [False, True])
def test_streamed_maps_are_the_maps_to_the_last_bit(far: bool, remember: bool) -> None:
    """Also where a stream is not all that leads down, and where the recording remembers."""
    asked = question(Encoder(far), remember)
    blocks = list(asked.blocks())[::-1]
    expected = zip(asked.attention, asked.gradients(), asked.relevances(), strict=True)
    assert len(blocks) == LAYERS
    for block, maps in zip(blocks, expected, strict=True):
        for found, whole in zip(block, maps, strict=True):
            assert torch.equal(found, whole)


def test_maps_below_what_is_asked_about_get_nothing_above_it() -> None:
    """A target that reads the stream half way: what lies above it has maps of zeros."""

    class Early(Encoder):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            x = self.blocks[1](self.blocks[0](x))
            early = self.head(x[:, 0])
            for block in self.blocks[2:]:
                x = block(x)
            return {"logits": self.head(x[:, 0]), "early": early}

    model = Early().double().eval()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    found = whyformer.Explainer(model)(x, lambda out: out["early"][:, 1])
    alone = whyformer.Explainer(model, output="early")(x, 1)
    assert torch.allclose(found.relevance, alone.relevance, rtol=1e-12, atol=0)
    assert found.relevance.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_explanations_leave_nothing_behind(dtype: torch.dtype) -> None:
    """Neither a forward, nor weights in single precision: the tenth is as the second was."""
    explainer, x = whyformer.Explainer(Encoder().to(dtype).eval()), torch.randn(2, 6, 8)

    def tensors() -> int:
        gc.collect()
        return sum(type(each) in (Tensor, nn.Parameter) for each in gc.get_objects())

    counts = {}
    for number in range(10):
        for method in ("transformer_attribution", "fullgrad", "lrp"):
            explainer(x, 1, method)
        if number in (1, 9):
            counts[number] = tensors()
    assert counts[9] == counts[1]
