"""Products on the way back: in full, fast in bfloat16, and never by waiting for a device."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import whyformer
from command_line import Run
from conftest import shared
from whyformer.engine import GRADIENTS, PRESETS, learned, multiplying
from whyformer.engine.multiplying import multiply
from whyformer.errors import UnknownNameError

#: what the host has to wait for: a number, or how many there are
READS = {"_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "unique_dim", "_unique2"}


def vit(layers: int = 2, seed: int = 0) -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(seed)
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=64,
        image_size=32, patch_size=8, num_labels=5,
    )  # fmt: skip
    return ViTForImageClassification(config).eval()


def correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack((a.flatten().double(), b.flatten().double())))[0, 1])


# -- products


@pytest.mark.parametrize(
    "rows",
    [
        lambda: torch.randn(50, 24),
        lambda: torch.randn(3, 1, 24).expand(3, 20, 24),
        lambda: torch.randn(24, 50).mT,
        lambda: torch.randn(2, 24),
        lambda: torch.randn(0, 24),
        lambda: torch.randn(24),
        lambda: torch.randn(3, 20, 24, dtype=torch.float64),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_products_are_products(rows: Callable[[], Tensor], wide: bool) -> None:
    torch.manual_seed(0)
    a = rows()
    b = torch.randn(24, 16, dtype=a.dtype)
    b = b.mT.contiguous().mT if wide else b
    torch.testing.assert_close(multiply(a, b), a @ b, rtol=1e-5, atol=1e-5)
    assert multiply(a, b, fast=True).dtype is a.dtype
    torch.testing.assert_close(multiply(a, b, fast=True), a @ b, rtol=0.02, atol=0.2)


def test_products_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.randn(50, 24), torch.randn(24, 16)
    monkeypatch.setattr(multiplying, "ONEDNN", None)
    assert torch.equal(multiply(a, b), a @ b)


# -- precision="fast"


@pytest.mark.parametrize("method", ["transformer_attribution", "witness", "lrp"])
def test_fast_agrees_and_says_so(method: str) -> None:
    explainer, images = whyformer.Explainer(vit()), torch.randn(2, 3, 32, 32)
    full = explainer(images, target=1, method=method)
    fast = explainer(images, target=1, method=method, precision="fast")
    assert torch.equal(full.logits, fast.logits)
    assert correlation(full.relevance, fast.relevance) > 0.99
    assert not torch.equal(full.relevance, fast.relevance)
    assert any("bfloat16" in note for note in fast.notes)
    assert not any("bfloat16" in note for note in full.notes)


@pytest.mark.parametrize("target", [1, [[1, 2]]])
def test_fast_and_full_maps_of_one_recording_do_not_mix(target: Any) -> None:
    images = torch.randn(1, 3, 32, 32)
    recording = whyformer.Explainer(vit()).record(images)
    other = whyformer.Explainer(vit()).record(images)
    fast = recording.explain(target, precision="fast")
    assert torch.equal(recording.explain(target).relevance, other.explain(target).relevance)
    assert torch.equal(recording.explain(target, precision="fast").relevance, fast.relevance)
    assert not torch.equal(other.explain(target).relevance, fast.relevance)


def test_an_unknown_precision_is_refused_before_the_forward() -> None:
    explainer = whyformer.Explainer(torch.nn.Linear(1, 1))
    with pytest.raises(UnknownNameError, match="unknown precision 'fastest'"):
        explainer(torch.randn(1, 3, 32, 32), precision="fastest")


def test_fast_on_the_command_line(run: Run) -> None:
    status, printed, _ = run("explain", "a joyless film", "--precision", "fast", "--json")
    assert status == 0
    assert any("bfloat16" in note for note in json.loads(printed)["notes"])
    status, _, said = run("explain", "a joyless film", "--precision", "quick")
    assert status == 2
    assert "unknown precision 'quick'" in said


@pytest.mark.slow
@pytest.mark.parametrize("method", ["transformer_attribution", "witness"])
def test_fast_agrees_with_double_precision_on_photographs(method: str) -> None:
    weights = shared("data", "deit_tiny_patch16_224_hf")
    photos = shared("data", "pets_segmentation") / "images"
    why, wide = whyformer.load(weights), whyformer.load(weights)
    wide.model.double()
    found = sorted(
        correlation(
            why(photo, method=method, precision="fast", matrix=False).relevance[:, 1:],
            wide(photo, method=method, matrix=False).relevance[:, 1:],
        )
        for photo in sorted(photos.iterdir())[:24]
    )
    assert len(found) == 24
    assert found[12] >= 0.999
    assert found[0] >= 0.99


# -- no waiting


class Reads(TorchDispatchMode):
    """Counts what would make the host wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in READS:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


TABLES = dict(GRADIENTS)
for _name, _preset in PRESETS.items():
    TABLES |= {f"{_name} attribution": _preset.attribution, f"{_name} lrp": _preset.lrp}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_no_rule_waits_for_a_device(name: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "waits", lambda device: True)
    trace = whyformer.Explainer(vit()).record(torch.randn(2, 3, 32, 32)).trace
    trace = trace.faster() if fast else trace
    seed = torch.zeros_like(trace.output)
    seed[:, 1] = 1
    of = [a.weights for a in trace.seen.attention] + [root.leaf for root in trace.seen.roots]
    start, other = [(trace.output, seed)], [(trace.output, seed.flip(-1))]
    with Reads() as reads:
        found = trace.backward(TABLES[name], start, of)
        both = trace.backwards(TABLES[name], [start, other], of)
    assert all(slot is not None for slots in (found, *both) for slot in slots)
    assert reads.found == []


@pytest.mark.parametrize("targets", [1, 2])
def test_what_a_processor_is_asked_would_be_seen(targets: int) -> None:
    """Rows without relevance are looked for on a CPU, which is not waited for."""
    trace = whyformer.Explainer(vit()).record(torch.randn(2, 3, 32, 32)).trace
    seed = torch.zeros_like(trace.output)
    seed[:, 1] = 1
    starts = [[(trace.output, seed)]] * targets
    with Reads() as reads:
        trace.backwards(GRADIENTS["gradient"], starts, [trace.seen.attention[0].weights])
    assert reads.found != []


@pytest.mark.parametrize("method", ["transformer_attribution", "witness", "generic_attention"])
def test_a_deeper_model_is_not_waited_for_more_often(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned, "waits", lambda device: True)
    counts = []
    for layers in (2, 4):
        recording = whyformer.Explainer(vit(layers)).record(torch.randn(2, 3, 32, 32))
        with Reads() as reads:
            recording.explain(1, method)
        counts.append(len(reads.found))
    assert counts[0] == counts[1]


def test_skipped_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer, images = whyformer.Explainer(vit()), torch.randn(2, 3, 32, 32)
    skipped = explainer(images, target=1)
    monkeypatch.setattr(learned, "waits", lambda device: True)
    torch.testing.assert_close(explainer(images, target=1).relevance, skipped.relevance)


class Convolved(torch.nn.Module):
    """A convolution between two layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(2)]
        self.below, self.above = layers
        self.between, self.head = torch.nn.Conv1d(16, 16, 3, padding=1), torch.nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.below(x)
        return self.head(self.above(x + self.between(x.mT).mT)[:, 0])


@pytest.mark.parametrize("method", ["transformer_attribution", "lrp", "witness"])
def test_a_convolution_stays_in_full_where_products_are_fast(method: str) -> None:
    model, x = Convolved().eval(), torch.randn(2, 9, 16, generator=torch.manual_seed(1))
    maps = [
        whyformer.Explainer(model)(x, 1, method, precision=precision).relevance
        for precision in ("full", "fast")
    ]
    assert correlation(*maps) > 0.99
