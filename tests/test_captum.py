"""Captum's methods: what they promise, and that they are Captum's own answers."""

from __future__ import annotations

import json
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from command_line import Run, run, scene  # noqa: F401
from serving import address, client, models  # noqa: F401
from small_texts import SENTENCES, save_bert
from test_sacred import call, same, state
from test_streams import bart, clip
from zoo import CASES, HandWritten, pixels

pytestmark = pytest.mark.interop

CASE = {case.name: case for case in CASES}
METHODS = ("integrated_gradients", "input_x_gradient", "saliency", "smoothgrad")
KINDS = ("ViT", "by hand, mean-pooled", "BERT", "nn.TransformerEncoder")


def recorded(name: str, double: bool = True) -> whyformer.Recording:
    model, inputs = CASE[name].make()
    return whyformer.Explainer(model.double() if double else model).record(inputs)


def plain(model: nn.Module, inputs: Any) -> tuple[Tensor, Any]:
    """The input as a leaf, and the logits by it, without whyformer."""
    if isinstance(inputs, Tensor):
        return inputs.double().requires_grad_(), model
    embedded = model.get_input_embeddings()(inputs["input_ids"]).detach().requires_grad_()
    return embedded, lambda x: model(inputs_embeds=x, attention_mask=inputs["attention_mask"])


@pytest.mark.parametrize("name", ["ViT", "BERT"])
def test_input_x_gradient_is_the_input_times_its_gradient(name: str) -> None:
    model, inputs = CASE[name].make()
    model.double()
    leaf, forward = plain(model, inputs)
    (gradient,) = torch.autograd.grad(forward(leaf).logits[:, 1].sum(), leaf)
    product = (leaf * gradient).detach().sum(1 if name == "ViT" else -1)
    size = gradient.abs().sum(1 if name == "ViT" else -1)
    recording = whyformer.Explainer(model).record(inputs)
    found = recording.explain(1, "input_x_gradient")
    assert torch.allclose(found.input_relevance, product)
    assert torch.allclose(recording.explain(1, "saliency").input_relevance, size)
    assert torch.allclose(found.relevance.sum(-1), product.flatten(1).sum(-1))


@pytest.mark.parametrize("name", KINDS)
def test_integrated_gradients_are_complete(name: str) -> None:
    """They sum to the target's rise from the baseline, the closer the more steps."""
    recording = recorded(name)
    forward = recording.forward
    content = recording.tokens.content[:, -forward.root.shape[1] :, None]
    keep = torch.zeros_like(forward.root) if forward.root.ndim == 4 else forward.root * ~content
    rise = (recording.logits - forward(keep, *forward.sides))[:, 2].detach()
    errors = []
    for steps in (2, 8, 64):
        found = recording.explain(2, "integrated_gradients", steps=steps)
        errors.append((found.relevance.sum(-1) - rise).abs().max())
        assert torch.allclose(found.relevance.sum(-1), found.input_relevance.flatten(1).sum(-1))
    assert errors[2] < 1e-3 * rise.abs().max()
    assert errors[0] > errors[2]


@pytest.mark.parametrize("name", ["ViT", "BERT"])
def test_integrated_gradients_are_captums(name: str) -> None:
    from captum.attr import IntegratedGradients

    model, inputs = CASE[name].make()
    model.double()
    leaf, forward = plain(model, inputs)
    recording = whyformer.Explainer(model).record(inputs)
    content = recording.tokens.content
    baseline = 0.25 if name == "ViT" else leaf.detach() * ~content.unsqueeze(-1)
    if name == "BERT":
        baseline = torch.where(content.unsqueeze(-1), 0.25, leaf.detach())
        mask = inputs["attention_mask"]

        def logits(x: Tensor, mask: Tensor) -> Tensor:
            return model(inputs_embeds=x, attention_mask=mask).logits

        by_hand = IntegratedGradients(logits).attribute(
            leaf, baseline, target=1, n_steps=20, additional_forward_args=mask
        )
    else:
        by_hand = IntegratedGradients(lambda x: forward(x).logits).attribute(
            leaf, baseline, target=1, n_steps=20
        )
    found = recording.explain(1, "integrated_gradients", steps=20, baseline=0.25)
    expected = by_hand.sum(1 if name == "ViT" else -1)
    assert torch.allclose(found.input_relevance, expected)


def test_smoothgrad_is_what_a_noise_tunnel_tends_to() -> None:
    from captum.attr import NoiseTunnel, Saliency

    model, image = CASE["ViT"].make()
    spread = 0.1 * float(image[:1].max() - image[:1].min())
    tunnel = NoiseTunnel(Saliency(lambda x: model(x).logits))
    by_hand = tunnel.attribute(
        image[:1].requires_grad_(), target=1, nt_samples=150, stdevs=spread
    ).sum(1)
    recording = whyformer.Explainer(model).record(image[:1])
    found = recording.explain(1, "smoothgrad", samples=150, spread=0.1).input_relevance
    sharp = recording.explain(1, "saliency").input_relevance
    distance = (found - by_hand).abs().mean()
    assert distance < 0.1 * by_hand.mean()
    assert distance < 0.5 * (sharp - by_hand).abs().mean()
    still = recording.explain(1, "smoothgrad", samples=2, spread=0.0).input_relevance
    assert torch.allclose(still, sharp, atol=1e-6)


@pytest.mark.parametrize("method", ["saliency", "smoothgrad"])
def test_sizes_have_no_sign(method: str) -> None:
    """What speaks for the class and what speaks against it are one map."""
    recording = recorded("ViT")
    found = recording.explain(1, method).relevance
    against = recording.explain(lambda out: -out.logits[:, 1], method).relevance
    assert found.any()
    assert torch.allclose(found, against)


def test_a_norm_hides_the_logit_from_the_input_times_its_gradient() -> None:
    """A LayerNorm forgets its input's size, so x g sums to nearly nothing; ``libra`` mends it."""

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.norm, self.head = nn.LayerNorm(8, eps=1e-9), nn.Linear(8, 3, bias=False)
            self.double().eval()

        def forward(self, x: Tensor) -> Tensor:
            (x @ x.mT).softmax(-1) @ x
            return self.head(self.norm(x).mean(1))

    model, x = Normed(), torch.randn(1, 4, 8, dtype=torch.float64)
    recording, logit = whyformer.Explainer(model).record(x), float(model(x)[0, 1].detach())
    plain = recording.explain(1, "input_x_gradient").relevance
    assert plain.abs().sum() < 1e-6 * abs(logit)
    balanced = recording.explain(1, "gradient_x_input").relevance
    assert float(balanced.sum()) == pytest.approx(logit)


def test_what_equals_the_baseline_gets_no_integrated_gradient() -> None:
    """A patch of the baseline's colour gets nothing, though the model looks at it."""
    model, image = CASE["ViT"].make()
    image[:, :, :8, :8] = 0
    recording = whyformer.Explainer(model.double()).record(image.double())
    assert recording.explain(1, "saliency").input_relevance[:, :8, :8].all()
    grey = [
        recording.explain(1, "integrated_gradients", baseline=value).input_relevance[:, :8, :8]
        for value in (0.0, 0.25)
    ]
    assert not grey[0].any()
    assert grey[1].all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [bart, clip])
def test_models_of_two_inputs_are_refused(method: str, make: Any) -> None:
    model, inputs = make()
    recording = whyformer.Explainer(model).record(inputs)
    with pytest.raises(whyformer.ModelError, match="vary one input, and the model reads 2"):
        recording.explain(1, method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KINDS)
def test_a_sample_gets_the_same_map_alone_and_in_a_batch(name: str, method: str) -> None:
    model, inputs = CASE[name].make()
    explainer = whyformer.Explainer(model.double())
    together = explainer(inputs, target=1, method=method)
    for sample in range(2):
        if isinstance(inputs, Tensor):
            alone: Any = inputs[sample : sample + 1]
        else:
            length = int(inputs["attention_mask"][sample].sum())
            alone = {key: value[sample : sample + 1, :length] for key, value in inputs.items()}
        found = explainer(alone, target=1, method=method).relevance[0]
        assert torch.allclose(found, together.relevance[sample, : len(found)])
        rest = together.relevance[sample, len(found) :]
        assert torch.allclose(rest, torch.zeros_like(rest))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["ViT", "BERT"])
def test_every_kind_of_target(name: str, method: str) -> None:
    recording = recorded(name)
    both = recording.explain([[0, 1], [2, 0]], method)
    assert both.relevance.shape[:2] == (2, 2)
    assert torch.allclose(both.relevance[1, 0], recording.explain(2, method).relevance[1])
    contrast = recording.explain(lambda out: out.logits[:, 0] - out.logits[:, 1], method)
    assert not torch.allclose(contrast.relevance, recording.explain(0, method).relevance)
    if method not in ("saliency", "smoothgrad"):  # those are not linear in the target
        apart = [recording.explain(t, method).relevance for t in (0, 1)]
        assert torch.allclose(contrast.relevance, apart[0] - apart[1])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_neither_gradient_mode_nor_warnings_nor_random_numbers(mode: Any, method: str) -> None:
    for name in ("ViT", "BERT"):
        model, inputs = CASE[name].make()
        expected = whyformer.Explainer(model)(inputs, 1, method).relevance
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        generator = torch.get_rng_state()
        with mode(), warnings.catch_warnings():
            warnings.simplefilter("error")
            inside = whyformer.Explainer(model)(inputs, 1, method)
        assert torch.allclose(inside.relevance, expected, atol=1e-6)
        assert not inside.relevance.requires_grad
        assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("name", ["ViT", "BERT"])
def test_half_precision_is_explained_in_single(name: str) -> None:
    model, inputs = CASE[name].make()
    half = whyformer.Explainer(model.to(torch.bfloat16))
    maps = [half(inputs, 1, method).input_relevance for method in METHODS]
    full = whyformer.Explainer(model.float())
    for method, found in zip(METHODS, maps, strict=True):
        assert found.dtype is torch.float32
        assert torch.allclose(found, full(inputs, 1, method).input_relevance, atol=1e-5)


@pytest.mark.parametrize("name", ["ViT", "BERT"])
def test_the_model_is_afterwards_as_before(name: str) -> None:
    model, inputs = CASE[name].make()
    next(model.parameters()).grad = torch.ones_like(next(model.parameters()))
    before, output = state(model), call(model, inputs)
    for method in METHODS:
        whyformer.Explainer(model)(inputs, 1, method)
        assert same(state(model), before), method
    assert torch.equal(call(model, inputs), output)


class Bare(nn.Module):
    """Attention without any parameter, on features."""

    def forward(self, x: Tensor) -> Tensor:
        return ((x @ x.transpose(1, 2)).softmax(-1) @ x)[:, 0, :3]


def test_features_and_a_model_without_parameters() -> None:
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    recording = whyformer.Explainer(Bare()).record(x)
    rise = (recording.logits - 0)[:, 1]
    found = recording.explain(1, "integrated_gradients", steps=100).relevance
    assert found.shape == (2, 5)
    assert torch.allclose(found.sum(-1), rise, atol=1e-3)


def test_an_image_whose_patches_are_unknown_is_read_at_its_pixels() -> None:
    class Unfolded(HandWritten):
        def forward(self, image: Tensor) -> Tensor:
            cut = image.unfold(2, 8, 8).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(3)
            x = cut.flatten(1, 2) @ self.patches.weight[..., :4].flatten(1).t()
            x = self.norm(self.blocks(x + self.position))
            return self.head(x.mean(1))

    model = Unfolded(mean=True).eval()
    model.position = nn.Parameter(torch.randn(1, 32, 32) * 0.1)
    image = pixels()
    fine = whyformer.Explainer(model)(image, 1, "saliency")
    assert fine.grid == (32, 32)
    found = whyformer.Explainer(model, grid=(4, 8))(image, 1, "saliency")
    assert found.relevance.shape == (2, 32)
    cells = fine.relevance.view(2, 4, 8, 8, 4).sum((2, 4)).flatten(1)
    assert torch.allclose(found.relevance, cells, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "options", "says"),
    [
        ("integrated_gradients", {"steps": 0}, "steps is 0; expected a whole number of at least 1"),
        ("smoothgrad", {"samples": 0}, "samples is 0; expected a whole number of at least 1"),
        ("smoothgrad", {"spread": -1.0}, "spread is -1.0; expected a number of at least 0"),
    ],
)
def test_bad_options_are_refused(method: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(whyformer.InputError, match=says):
        recorded("ViT").explain(1, method, **options)


def test_two_threads_at_once() -> None:
    recording = recorded("ViT")
    expected = [recording.explain(t, "smoothgrad").relevance for t in range(3)]
    found: dict[int, Tensor] = {}

    def ask(target: int) -> None:
        found[target] = recording.explain(target, "smoothgrad").relevance

    threads = [threading.Thread(target=ask, args=(t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(found[t], expected[t]) for t in range(3))


def test_the_embedded_models_and_long_texts(tmp_path: Path) -> None:
    why = whyformer.load("demo-text")
    words = why("a joyless film", target="negative", method="integrated_gradients").words()[0]
    assert max(words, key=lambda pair: pair[1])[0] == "joyless"
    tiny = whyformer.load(save_bert(tmp_path))
    long = tiny(" ".join(SENTENCES * 3), method="input_x_gradient")
    assert "windows" in long.notes[0]
    assert long.relevance.isfinite().all()


def test_on_the_command_line(run: Run, scene: Path, tmp_path: Path) -> None:  # noqa: F811
    asked = ("--method", "integrated_gradients", "--method", "smoothgrad")
    code, output, errors = run("compare", scene, *asked, "--out", tmp_path / "why.json")
    assert (code, errors) == (0, ""), errors
    views = json.loads((tmp_path / "why.json").read_text())["views"]
    assert [view["method"] for view in views] == ["integrated_gradients", "smoothgrad"]
    listed = ",".join(METHODS)
    out = tmp_path / "run"
    code, output, errors = run(
        "evaluate", "pointing", "--limit", 2, "--methods", listed, "--out", out
    )
    assert code == 0, errors
    assert all(method in output for method in METHODS)
    code, output, errors = run("methods")
    assert all(method in output for method in METHODS)


def test_on_the_web_page(client: Any) -> None:  # noqa: F811
    listed = {entry["name"]: entry for entry in client.get("/methods").json()["methods"]}
    assert all(listed[method]["on_request"] for method in METHODS)
    answer = client.post(
        "/explain", json={"text": "a joyless film", "methods": ["integrated_gradients"]}
    )
    assert answer.status_code == 200, answer.text
    assert "integrated_gradients" in answer.text
