"""Methods that take tokens away: occlusion, LIME and sampled Shapley values."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from probe import close, draw
from test_completeness import MODELS, noised
from test_named_methods import CASE, same_alone_and_in_a_batch
from zoo import pixels

SAMPLERS = ("lime", "shapley_sampling")
every_method = pytest.mark.parametrize(
    "method", ["occlusion", *(pytest.param(m, marks=pytest.mark.interop) for m in SAMPLERS)]
)


class Of(nn.Module):
    """Any function of features, beside attention that changes nothing."""

    def __init__(self, part: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        (x @ x.mT).softmax(-1) @ x
        return self.part(x)


def explained(part: Callable[[Tensor], Tensor], x: Tensor, method: str, **options: Any) -> Tensor:
    found = whyformer.Explainer(Of(part))(x, 0, method, progress=False, **options)
    return found.relevance


def two_of_four(x: Tensor) -> Tensor:
    """Weights of tokens, and something that two of them do together; two classes."""
    t = x.sum(-1)
    y = (
        t @ torch.tensor([1.0, -2.0, 0.5, 3.0]).to(x)
        + t[:, 1] * t[:, 2]
        - (t[:, 0] * t[:, 3]).tanh()
    )
    return torch.stack([y, -y], 1)


def shapley(part: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Of one sample, by its definition: every subset of the other tokens."""
    n = len(x)
    out = torch.zeros(n, dtype=x.dtype)
    for token in range(n):
        others = [i for i in range(n) if i != token]
        for size in range(n):
            for chosen in combinations(others, size):
                before = torch.zeros_like(x)
                before[list(chosen)] = x[list(chosen)]
                after = before.clone()
                after[token] = x[token]
                weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
                out[token] += weight * (part(after[None]) - part(before[None]))[0, 0]
    return out


# -- what each is


@pytest.mark.parametrize("name", ["ViT", "BERT"])
def test_occlusion_by_hand(name: str) -> None:
    """Patches in the pixels, words in the embeddings; the model itself without whyformer."""
    model, inputs = CASE[name].make()
    model.double()
    if name == "ViT":
        root = inputs.double()
        logits = lambda x: model(x).logits[:, 1]  # noqa: E731
        parts = [(slice(None), slice(None), slice(8 * r, 8 * r + 8), slice(8 * c, 8 * c + 8))
                 for r in range(4) for c in range(4)]  # fmt: skip
    else:
        root = model.get_input_embeddings()(inputs["input_ids"]).detach()
        mask = inputs["attention_mask"]
        logits = lambda x: model(inputs_embeds=x, attention_mask=mask).logits[:, 1]  # noqa: E731
        parts = [(slice(None), token) for token in range(1, 9)]
    explainer = whyformer.Explainer(model)
    for baseline in (0.0, 0.25):
        found = explainer(inputs, 1, "occlusion", baseline=baseline, progress=False).relevance
        for number, part in enumerate(parts, 1):
            without = root.clone()
            without[part] = baseline
            with torch.no_grad():
                lost = logits(root) - logits(without)
            shown = inputs["attention_mask"][:, number] if name == "BERT" else 1
            close(found[:, number], lost * shown)
        assert not found[:, 0].any()


@pytest.mark.interop
def test_sampled_shapley_values_tend_to_shapley_values() -> None:
    x = draw(2, 4, 3)
    expected = torch.stack([shapley(two_of_four, one) for one in x])
    errors = []
    for samples in (3, 300):
        found = explained(two_of_four, x, "shapley_sampling", samples=samples)
        close(found.sum(-1), (two_of_four(x) - two_of_four(0 * x))[:, 0], 1e-6)
        errors.append((found - expected).abs().max())
    assert errors[1] < 0.1 * expected.abs().max()
    assert errors[1] < errors[0]


@pytest.mark.interop
def test_lime_is_a_weighted_ridge_regression() -> None:
    """Over all sixteen masks of four tokens, as often as they were drawn."""
    x = draw(1, 4, 3)
    found = explained(two_of_four, x, "lime", samples=4000)
    masks = torch.tensor([[n >> i & 1 for i in range(4)] for n in range(16)]).double()
    values = two_of_four(x * masks.unsqueeze(-1))[:, 0]
    distance = 1 - (masks.sum(1) / 2 / masks.sum(1).sqrt()).nan_to_num(0.0)
    weights = (-(distance**2) / 0.25**2).exp().sqrt().unsqueeze(1)
    table = torch.cat([masks, torch.ones(16, 1).double()], 1) * weights
    expected = torch.linalg.lstsq(table, values.unsqueeze(1) * weights).solution[:4, 0]
    assert (found[0] - expected).abs().max() < 0.1 * expected.abs().max()


@every_method
def test_a_sum_of_tokens_is_told_exactly(method: str) -> None:
    x, weights = draw(2, 5, 3), draw(5)
    found = explained(lambda x: torch.stack([x.sum(-1) @ weights, x[:, 0, 0]], 1), x, method)
    close(found, x.sum(-1) * weights, {"occlusion": 1e-9, "lime": 1e-3}.get(method, 1e-6))


# -- where each fails


@every_method
def test_two_tokens_that_say_the_same(method: str) -> None:
    """Either is enough: the logit loses nothing without one. Occlusion gives nothing to both."""

    def either(x: Tensor) -> Tensor:
        y = torch.maximum(x[:, 0, 0], x[:, 1, 0])
        return torch.stack([y, -y], 1)

    x = torch.zeros(1, 4, 3, dtype=torch.float64)
    x[:, :2, 0] = 1
    found = explained(either, x, method)[0]
    if method == "occlusion":
        assert not found.any()
    else:
        assert (found[:2] > 0.1).all()
        assert found[2:].abs().max() < 0.1


@pytest.mark.interop
@pytest.mark.parametrize(("method", "few", "many"), [("lime", 8, 600), ("shapley_sampling", 1, 60)])
def test_few_samples_are_unstable(method: str, few: int, many: int) -> None:
    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs.double())

    def spread(samples: int) -> float:
        maps = [
            recording.explain(1, method, samples=samples, seed=seed, progress=False).relevance
            for seed in (0, 1)
        ]
        return float((maps[0] - maps[1]).abs().max() / maps[0].abs().max())

    assert spread(few) > 0.3
    assert spread(many) < 0.2 * spread(few)


# -- what all promise


@every_method
@pytest.mark.parametrize("name", ["ViT", "BERT", "by hand, mean-pooled"])
def test_a_sample_gets_the_same_map_alone_and_in_a_batch(name: str, method: str) -> None:
    options = {} if method == "occlusion" else {"samples": 20}
    same_alone_and_in_a_batch(name, method, progress=False, **options)


@every_method
def test_neither_random_numbers_nor_gradients_of_others(method: str) -> None:
    model, inputs = CASE["ViT"].make()
    options = {} if method == "occlusion" else {"samples": 5}
    before = torch.get_rng_state()
    with torch.inference_mode():
        found = whyformer.Explainer(model)(inputs, 1, method, progress=False, **options)
    assert torch.equal(torch.get_rng_state(), before)
    assert found.relevance.dtype is torch.float32
    assert all(parameter.grad is None for parameter in model.parameters())


@every_method
def test_progress(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model).record(inputs)
    options = {} if method == "occlusion" else {"samples": 4}
    totals = {"occlusion": "16/16", "lime": "8/8", "shapley_sampling": "130/130"}
    recording.explain(1, method, progress=False, **options)
    assert capsys.readouterr().err == ""
    recording.explain(1, method, **options)
    assert totals[method] in capsys.readouterr().err


def test_patches_that_do_not_divide_the_image_and_a_position_of_a_text() -> None:
    """Occlusion of everything that a causal model cannot see changes nothing."""
    model, inputs = MODELS["GPT-2"]()
    found = whyformer.Explainer(noised(model))(
        inputs, [(3, 7), (5, 7)], "occlusion", progress=False
    ).relevance
    assert found[0, :4].all()
    assert not found[0, 4:].any()
    assert not found[1, 6:].any()
    case = CASE["ViT, rectangular and interpolated"]
    model, image = case.make()
    wide = whyformer.Explainer(model)(image, 1, "occlusion", progress=False)
    assert wide.relevance[:, 1:].all()
    coarse = whyformer.Explainer(CASE["by hand, matmul"].make()[0], grid=(2, 2))
    assert coarse(pixels(), 1, "occlusion", progress=False).relevance.count_nonzero() == 8


@every_method
def test_models_of_several_inputs_are_refused(method: str) -> None:
    model, inputs = MODELS["BART"]()
    with pytest.raises(whyformer.ModelError, match="takes tokens of one input away, and the model"):
        whyformer.Explainer(noised(model))(inputs, (4, 1), method, progress=False)


@pytest.mark.interop
@pytest.mark.parametrize("method", SAMPLERS)
def test_bad_options(method: str) -> None:
    model, inputs = CASE["ViT"].make()
    with pytest.raises(
        whyformer.InputError, match="samples is 0; expected a whole number of at least 1"
    ):
        whyformer.Explainer(model)(inputs, 1, method, samples=0)
