"""The logits as a function of the input: the recorded forward, run again on other values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import whyformer
from test_sacred import call, same, state
from whyformer.engine import multiplying
from whyformer.engine.multiplying import by_onednn
from zoo import CASES, Case, Encoder, HandWritten, pixels, text


def again(recording: whyformer.Recording, times: int = 1) -> Tensor:
    forward = recording.forward
    rows = [t.repeat_interleave(times, 0) for t in (forward.root, *forward.sides)]
    return forward(*rows)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_forward_again_gives_the_recorded_logits(case: Case) -> None:
    model, inputs = case.make()
    for kind, close in ((torch.float32, 1e-6), (torch.float64, 1e-12), (torch.bfloat16, 1e-6)):
        given = inputs.double() if isinstance(inputs, Tensor) else inputs
        recording = whyformer.Explainer(model.to(kind)).record(given)
        assert torch.allclose(again(recording), recording.logits, atol=close, rtol=0)
        assert torch.allclose(again(recording, 3)[::3], recording.logits, atol=close, rtol=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_forward_without_gradients_gives_the_recorded_logits(case: Case) -> None:
    recording = whyformer.Explainer((made := case.make())[0]).record(made[1])
    with torch.no_grad():
        found = again(recording, 3)
    assert torch.allclose(found[::3], recording.logits, atol=1e-6, rtol=0)


@pytest.mark.skipif(multiplying.ONEDNN is None, reason="this torch has no oneDNN to call")
@pytest.mark.parametrize("bias", [None, torch.randn(5)], ids=["alone", "with a bias"])
def test_a_linear_layer_by_onednn_is_torch_s(bias: Tensor | None) -> None:
    x, weight = torch.randn(2, 3, 9, 8), nn.Parameter(torch.randn(5, 8))
    with torch.no_grad():
        for given in (x, x.mT.contiguous().mT, x[:, :, :1].expand_as(x), x[..., :1, :].squeeze(2)):
            found, wanted = by_onednn(given, weight, bias), F.linear(given, weight, bias)
            few = given.shape[:-1].numel() < multiplying.FEW_ROWS
            assert (found is None) == few
            assert found is None or torch.allclose(found, wanted, atol=1e-5)


def test_what_onednn_does_not_take_is_left_to_torch() -> None:
    x, weight = torch.randn(16, 8), torch.randn(5, 8)
    for given in (
        (x.double(), weight.double()),
        (x, weight[0]),
        (x[0], weight),
        (x.bfloat16(), weight.bfloat16()),
        (x, weight, torch.randn(5).double()),
        (x.as_subclass(Marked), weight),
    ):
        assert by_onednn(*given) is None


class Marked(Tensor):
    pass


@pytest.mark.parametrize("tracked", [False, True])
def test_onednn_is_asked_where_no_gradient_is(
    tracked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs = next(case for case in CASES if case.name == "BERT").make()
    recording = whyformer.Explainer(model).record(inputs)
    asked: list[Tensor] = []

    def counted(input: Tensor, weight: Tensor, bias: Tensor, *_: Any) -> Tensor:
        asked.append(weight)
        return F.linear(input, weight, bias)

    monkeypatch.setattr(multiplying, "ONEDNN", counted)
    with torch.set_grad_enabled(tracked):
        again(recording)
    assert bool(asked) == (not tracked)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_logits_depend_on_the_given_input(case: Case) -> None:
    model, inputs = case.make()
    recording = whyformer.Explainer(model).record(inputs)
    root = recording.forward.root.clone().requires_grad_()
    logits = recording.forward(root, *recording.forward.sides)
    (gradient,) = torch.autograd.grad(logits.sum(), root)
    assert (gradient != 0).flatten(1).any(1).all()
    moved = recording.forward(root.detach() * 0.5, *recording.forward.sides)
    assert not torch.allclose(moved, recording.logits, atol=1e-4)


def test_the_model_is_as_before_after_the_forward_again() -> None:
    for case in (CASES[0], next(case for case in CASES if case.name == "BERT")):
        model, inputs = case.make()
        before, output = state(model), call(model, inputs)
        again(whyformer.Explainer(model).record(inputs))
        assert same(state(model), before)
        assert torch.equal(call(model, inputs), output)


class InPlace(HandWritten):
    def forward(self, image: Tensor) -> Tensor:
        image -= 0.5
        return super().forward(image)


class PositionsFirst(Encoder):
    """Embeds positions before words, and writes into what it looked up."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        places = self.places(torch.arange(input_ids.shape[1]))
        x = self.words(input_ids)
        x += places
        padding = attention_mask == 0
        return self.head(self.encoder(x, src_key_padding_mask=padding)[:, 0])


@pytest.mark.parametrize(
    ("model", "inputs"), [(InPlace(), pixels()), (PositionsFirst(), text())], ids=["image", "text"]
)
def test_models_that_write_into_their_input(model: nn.Module, inputs: Any) -> None:
    model.eval()
    copy = inputs.clone() if isinstance(inputs, Tensor) else None
    recording = whyformer.Explainer(model).record(copy if copy is not None else inputs)
    if copy is None:
        assert torch.allclose(recording.forward.root, model.words(inputs["input_ids"]))
    root = recording.forward.root.clone().requires_grad_()
    kept = root.detach().clone()
    assert torch.allclose(
        recording.forward(root, *recording.forward.sides), recording.logits, atol=1e-6
    )
    assert torch.equal(root, kept)


def test_inputs_changed_after_the_recording_are_noticed() -> None:
    model, inputs = CASES[0].make()
    recording = whyformer.Explainer(model).record(inputs)
    inputs.zero_()
    with pytest.raises(whyformer.InputError, match="record them again"):
        _ = recording.forward.root


class SequenceFirst(Encoder):
    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.encoder(self.words(input_ids.t()))[0])


def test_embeddings_without_a_batch_axis_first_are_refused() -> None:
    model = SequenceFirst(batch_first=False).eval()
    recording = whyformer.Explainer(model).record({"input_ids": torch.randint(5, 60, (2, 9))})
    with pytest.raises(whyformer.ModelError, match="cannot tell the samples apart"):
        _ = recording.forward.root
