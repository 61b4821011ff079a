"""The user's model is sacred: nothing about it changes, whatever happens."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from zoo import CASES, HandWritten, pixels, quick

CASE = {case.name: case for case in CASES}


def state(model: nn.Module) -> dict[str, Any]:
    """Everything about a model that a caller could notice."""
    return {
        "values": {k: v.detach().clone() for k, v in model.state_dict().items()},
        "identity": [id(p) for p in model.parameters()],
        "version": [p._version for p in model.parameters()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "grad": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "training": [m.training for m in model.modules()],
        "attributes": [sorted(vars(m)) for m in model.modules()],
        "hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks))
            for m in model.modules()
        ],
        "forward": [m.__dict__.get("forward") for m in model.modules()],
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def call(model: nn.Module, inputs: Any) -> Tensor:
    with torch.no_grad():
        output = model(**inputs) if isinstance(inputs, dict) else model(inputs)
    return getattr(output, "logits", output)


@pytest.mark.parametrize("name", ["ViT", "BERT", "nn.TransformerEncoder", "by hand, matmul"])
def test_a_model_is_afterwards_as_before(name: str) -> None:
    model, inputs = CASE[name].make()
    parameters = list(model.parameters())
    parameters[0].requires_grad_(False)
    parameters[1].grad = torch.ones_like(parameters[1])
    calls = []
    model.register_forward_hook(lambda *_: calls.append("hook"))
    before, output = state(model), call(model, inputs)
    recording = whyformer.Explainer(model).record(inputs)
    methods = sorted(whyformer.methods().values(), key=varies_the_input)
    for method in methods:
        recording.explain(method=method.name, **quick(method.name))
        assert len(calls) == 2 or varies_the_input(method)
    assert same(state(model), before)
    assert torch.equal(call(model, inputs), output)


def varies_the_input(method: whyformer.Method) -> bool:
    """Some run the model again: for other inputs, baselines, masks or streams."""
    home = method.function.__module__.rpartition(".")[2]
    again = home in ("captum", "deeplift", "legrad", "occlusion", "sampling")
    return again or bool({"steps", "samples"} & set(method.options))


def test_the_inputs_are_not_touched() -> None:
    model, image = CASE["ViT"].make()
    copy = image.clone()
    whyformer.Explainer(model)(image, method="lrp")
    assert torch.equal(image, copy)
    assert not image.requires_grad
    assert image.grad is None
    leaf = image.clone().requires_grad_()
    whyformer.Explainer(model)(leaf)
    assert leaf.grad is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_callers_gradient_mode_does_not_matter(mode: Any) -> None:
    model, image = CASE["ViT"].make()
    expected = whyformer.Explainer(model)(image, target=1).relevance
    with mode():
        inside = whyformer.Explainer(model)(image + 0, target=1).relevance
        assert not torch.is_grad_enabled()
    assert torch.allclose(inside, expected)


class Fails(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("broken in the middle")


def test_a_model_is_as_before_after_an_exception() -> None:
    model = HandWritten().eval()
    before, output = state(model), call(model, pixels(batch=1).fill_(0.3))
    model.norm.register_forward_pre_hook(lambda *_: Fails()(None))
    with pytest.raises(whyformer.InputError, match="broken in the middle"):
        whyformer.Explainer(model)(pixels())
    model.norm._forward_pre_hooks.clear()
    assert same(state(model), before)
    assert torch.equal(call(model, pixels(batch=1).fill_(0.3)), output)
    x = torch.randn(3, 3, requires_grad=True)
    assert type((x + x).grad_fn).__name__ == "AddBackward0", "the recorder is still active"


def test_a_failing_backward_leaves_a_recording_usable() -> None:
    model, image = CASE["ViT"].make()
    recording = whyformer.Explainer(model).record(image)
    expected = recording.explain(1).relevance

    @whyformer.register("breaks", "fails in the middle of a relevance pass")
    def breaks(question: Any) -> Any:
        from dataclasses import replace

        def broken(*_: Any) -> Any:
            raise RuntimeError("rule")

        question.relevances(replace(question.preset.attribution, sum=broken))

    try:
        with pytest.raises(whyformer.ModelError, match="rule"):
            recording.explain(1, "breaks")
    finally:
        from whyformer.methods import registry

        registry._METHODS.pop("breaks")
    again = recording.explain(2)
    assert torch.equal(recording.explain(1).relevance, expected)
    assert not torch.equal(again.relevance, expected)


def test_two_threads_at_once() -> None:
    """Two explainers of one model, and a plain forward beside them, do not see each other."""
    model, image = CASE["ViT"].make()
    explainer = whyformer.Explainer(model)
    expected = [explainer(image, target=t).relevance for t in range(3)]
    plain = call(model, image)
    wrong: list[str] = []

    def explain(target: int) -> None:
        for _ in range(8):
            if not torch.allclose(explainer(image, target=target).relevance, expected[target]):
                wrong.append(f"target {target}")

    def forward() -> None:
        for _ in range(40):
            if not torch.equal(call(model, image), plain):
                wrong.append("forward")

    threads = [threading.Thread(target=explain, args=(t,)) for t in range(3)]
    threads.append(threading.Thread(target=forward))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_one_recording_asked_by_two_threads() -> None:
    model, image = CASE["ViT"].make()
    recording = whyformer.Explainer(model).record(image)
    expected = [whyformer.Explainer(model)(image, target=t).relevance for t in range(4)]
    found: dict[int, Tensor] = {}

    def ask(target: int) -> None:
        found[target] = recording.explain(target).relevance

    threads = [threading.Thread(target=ask, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.allclose(found[t], expected[t], atol=1e-6) for t in range(4))


def test_in_place_operations_are_followed() -> None:
    """x += y and relu_ behave as their ordinary forms, in values and in relevance."""

    class Model(HandWritten):
        in_place = False

        def forward(self, image: Tensor) -> Tensor:
            x = self.patches(image).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
            if self.in_place:
                x += self.position
                y = self.blocks(x)
                y *= 2
                y.add_(x)
                z = self.norm(y).clone()
                z.relu_()
            else:
                x = x + self.position
                y = self.blocks(x) * 2
                y = y + x
                z = self.norm(y).relu()
            return self.head(z[:, 0])

    model = Model().double().eval()
    image = pixels().double()
    ordinary = whyformer.Explainer(model)(image, target=1, keep_blocks=True)
    model.in_place = True
    in_place = whyformer.Explainer(model)(image, target=1, keep_blocks=True)
    assert torch.allclose(in_place.logits, ordinary.logits)
    assert torch.allclose(in_place.relevance, ordinary.relevance)
    for a, b in zip(in_place.blocks.relevance, ordinary.blocks.relevance, strict=True):
        assert torch.allclose(a, b)


class Written(nn.Module):
    """Attention by hand on sequences, its steps overwriting what they were given, or not."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.up = nn.Linear(8, 24), nn.Linear(8, 16)
        self.down, self.head = nn.Linear(16, 8), nn.Linear(8, 3)
        self.in_place = False

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        if self.in_place:
            scores = q @ k.transpose(-2, -1)
            scores /= 2
            scores += 0.1
            scores.masked_fill_(hidden, float("-inf"))
            weights = scores.softmax(-1)
            weights *= 1.0
            mixed = weights @ v
            y = mixed.transpose(1, 2).flatten(2)
            y += x
            h = nn.functional.relu(self.up(y), inplace=True)
            out = self.down(h)
            out.add_(y).mul_(0.5)
        else:
            scores = (q @ k.transpose(-2, -1)) / 2 + 0.1
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1) * 1.0
            y = (weights @ v).transpose(1, 2).flatten(2) + x
            out = (self.down(nn.functional.relu(self.up(y))) + y) * 0.5
        return self.head(out[:, -1])


@pytest.mark.parametrize("preset", ["stable", "paper", "reference"])
def test_attention_written_in_place(preset: str) -> None:
    model = Written().double().eval()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    ordinary = whyformer.Explainer(model)(x, target=1, preset=preset, keep_blocks=True)
    model.in_place = True
    in_place = whyformer.Explainer(model)(x, target=1, preset=preset, keep_blocks=True)
    assert torch.allclose(in_place.logits, call(model, x))
    assert torch.allclose(in_place.logits, ordinary.logits)
    assert torch.allclose(in_place.blocks.relevance[0], ordinary.blocks.relevance[0])
    assert torch.allclose(in_place.relevance, ordinary.relevance)
    assert not in_place.notes
