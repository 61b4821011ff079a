"""Several targets in one call: what each gets is what it gets alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from test_descent import LAYERS, Encoder
from whyformer.engine import GRADIENTS, PRESETS, trace
from whyformer.methods import beside, registry
from whyformer.methods.maps import MapReading
from zoo import CASES, Case

METHODS = ("transformer_attribution", "generic_attention")


@pytest.fixture
def descents(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many targets went down together, each time."""
    found: list[int] = []
    plain = trace.go_down

    def counted(table: Any, starts: Any, of: Any) -> Any:
        found.append(len(starts[0][1]))
        return plain(table, starts, of)

    monkeypatch.setattr(trace, "go_down", counted)
    return found


def same(several: Tensor, alone: Tensor) -> None:
    torch.testing.assert_close(several, alone, rtol=1e-9, atol=1e-12 * float(alone.abs().max()))


def in_double(case: Case) -> tuple[nn.Module, Any]:
    model, inputs = case.make()
    return model.double(), inputs.double() if isinstance(inputs, Tensor) else inputs


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_kind_of_model(case: Case, method: str, descents: list[int]) -> None:
    model, inputs = in_double(case)
    explainer = whyformer.Explainer(model)
    several = explainer(inputs, [[0, 1, 0]], method)
    assert set(descents) <= {3}
    assert bool(descents) is not bool(explainer.record(inputs).trace.foreign)
    for number, target in enumerate((0, 1, 0)):
        same(several.relevance[:, number], explainer(inputs, target, method).relevance)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("factor", ["gradient", "attention", None])
def test_every_preset_and_every_factor(
    preset: str, factor: str | None, descents: list[int]
) -> None:
    model, inputs = in_double(CASES[0])
    explainer = whyformer.Explainer(model)
    several = explainer(inputs, [[0, 1], [3, 2]], preset=preset, factor=factor)
    assert descents
    for number, targets in enumerate(([0, 3], [1, 2])):
        alone = explainer(inputs, targets, preset=preset, factor=factor)
        same(several.relevance[:, number], alone.relevance)


@pytest.mark.parametrize("table", GRADIENTS)
def test_every_gradient_down_to_the_pixels(table: str) -> None:
    model, inputs = in_double(CASES[0])
    recorded = whyformer.Explainer(model).record(inputs).trace
    starts = []
    for target in range(3):
        seed = torch.zeros_like(recorded.output)
        seed[:, target] = 1
        starts.append([(recorded.output, seed)])
    of = [recorded.seen.roots[0].leaf, recorded.seen.attention[0].weights]
    together = recorded.backwards(GRADIENTS[table], starts, of)
    for start, found in zip(starts, together, strict=True):
        for slot, alone in zip(found, recorded.backward(GRADIENTS[table], start, of), strict=True):
            assert slot is not None
            assert alone is not None
            same(slot, alone)


@pytest.mark.parametrize("blocks", [-1, 1, slice(1, 3)])
def test_some_blocks(blocks: Any) -> None:
    explainer = whyformer.Explainer(Encoder(far=True).double().eval())
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    several = explainer(x, [[0, 2]], blocks=blocks)
    for number, target in enumerate((0, 2)):
        same(several.relevance[:, number], explainer(x, target, blocks=blocks).relevance)


def test_as_many_as_have_room(monkeypatch: pytest.MonkeyPatch, descents: list[int]) -> None:
    explainer = whyformer.Explainer(Encoder().double().eval())
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    whole = explainer(x, [[0, 1, 2]]).relevance
    assert set(descents) == {3}
    descents.clear()
    one_map = 2 * 2 * 6 * 6 * 8
    monkeypatch.setattr(beside, "MOST_BYTES", 2 * one_map)
    same(explainer(x, [[0, 1, 2]]).relevance, whole)
    assert set(descents) == {2}
    descents.clear()
    monkeypatch.setattr(beside, "MOST_BYTES", 0)
    same(explainer(x, [[0, 1, 2]]).relevance, whole)
    assert not descents


def test_what_a_target_asks_for_itself_is_not_anothers() -> None:
    """A method may ask another way for another target: what waits for it is then not taken."""

    def odd(question: Any) -> Any:
        second = bool(question.seed[:, 1].any())
        name = "libra" if second else "gradient"

        def layer(b: int, maps: list[Tensor]) -> Tensor:
            return (maps[0] * question.attention[b]).clamp(min=0).mean(1)

        return question.roll_out(question.layers(layer, question.by_gradient(GRADIENTS[name])))

    whyformer.register("odd_one", "asks another way for class 1")(odd)
    try:
        explainer = whyformer.Explainer(Encoder().double().eval())
        x = torch.randn(2, 6, 8, dtype=torch.float64)
        found = explainer(x, [[0, 1]], "odd_one").relevance
        same(found[:, 0], explainer(x, 0, "generic_attention").relevance)
        same(found[:, 1], explainer(x, 1, "generic_attention", gradient="libra").relevance)
    finally:
        registry._METHODS.pop("odd_one")


def test_maps_are_forgotten_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc
    import weakref

    made: list[weakref.ref[Tensor]] = []
    most = 0
    plain: Callable[..., Tensor] = MapReading._map_of

    def watched(self: MapReading, attention: Tensor, slot: Tensor | None) -> Tensor:
        nonlocal most
        gc.collect()
        most = max(most, sum(ref() is not None for ref in made))
        found = plain(self, attention, slot)
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(MapReading, "_map_of", watched)
    whyformer.Explainer(Encoder().eval())(torch.randn(2, 6, 8), [[0, 1, 2]])
    assert len(made) == LAYERS * 3 * 2
    assert most <= 3 * 2
