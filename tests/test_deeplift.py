"""DeepLIFT and DeepSHAP: every rule, and that contributions sum to the change, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import oracle_named
import whyformer
from probe import close, draw, recorded
from test_completeness import MODELS, noised, one_logit_each
from test_named_methods import CASE, correlation, same_alone_and_in_a_batch
from whyformer.engine import GRADIENT
from whyformer.engine.pairs import paired
from whyformer.engine.rules.differences import deeplift_table
from whyformer.methods.varying import blank
from zoo import HandWritten, pixels

Part = Callable[..., Tensor]


def multipliers(
    part: Part, inputs: tuple[Tensor, ...], before: tuple[Tensor, ...], slot: Tensor
) -> list[Tensor]:
    trace, roots = recorded(part, *inputs)
    other, _ = recorded(part, *before)
    table = deeplift_table(paired(trace, other))
    return trace.backward(table, [(trace.output, slot.flatten(1))], roots)


def exact(part: Part, inputs: tuple[Tensor, ...], before: tuple[Tensor, ...]) -> list[Tensor]:
    """The multipliers of a part, of which it is seen that they tell the change."""
    slot = torch.randn_like(part(*inputs))
    found = multipliers(part, inputs, before, slot)
    change = ((part(*inputs) - part(*before)) * slot).sum()
    told = sum((m * (x - b)).sum() for m, x, b in zip(found, inputs, before, strict=True))
    close(told, change, 1e-10)
    return found


# -- the rules


def test_products() -> None:
    u, v, u0, v0 = draw(2, 3, 4), draw(2, 4, 5), draw(2, 3, 4), draw(2, 4, 5)
    slot = draw(2, 3, 5)
    for part in (lambda u, v: u @ v, lambda u, v: torch.einsum("bij,bjk->bik", u, v)):
        found = multipliers(part, (u, v), (u0, v0), slot)
        for n in range(2):
            expected = oracle_named.product_multipliers(u[n], v[n], u0[n], v0[n], slot[n])
            close(found[0][n], expected[0])
            close(found[1][n], expected[1])
    exact(lambda u, v: u * v.mT[..., :1, :], (u, v), (u0, v0))


def test_softmax() -> None:
    x, x0, slot = 3 * draw(2, 4, 5), 3 * draw(2, 4, 5), draw(2, 4, 5)
    x0[0, 0] = x[0, 0]
    (found,) = multipliers(lambda x: x.softmax(-1), (x,), (x0,), slot)
    for n, row in oracle_named.every(x[..., 0]):
        one = (x[n, row], x0[n, row], slot[n, row])
        close(found[n, row], oracle_named.softmax_multipliers(*one))
    exact(lambda x: x.softmax(1), (x,), (x0,))


def test_softmax_of_distant_and_of_masked_scores() -> None:
    """Scores far apart underflow in one of both; masked ones get nothing."""
    x, x0 = draw(2, 3, 6), draw(2, 3, 6)
    x[:, 0, 0] += 60
    x0[:, 0, 1] += 60
    exact(lambda x: x.softmax(-1), (x,), (x0,))
    hidden = torch.zeros(6, dtype=torch.bool)
    hidden[4:] = True
    for fill in (float("-inf"), torch.finfo(torch.float64).min, -1e4):

        def masked(x: Tensor, fill: float = fill) -> Tensor:
            return x.masked_fill(hidden, fill).softmax(-1)

        (found,) = exact(masked, (x,), (x0,))
        assert not found[..., 4:].any()


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "with a bias on the scores"])
def test_fused_attention(bias: bool) -> None:
    q, k, v = (draw(2, 1, 4, 3) for _ in range(3))
    before = tuple(draw(2, 1, 4, 3) for _ in range(3))
    mask = 5 * draw(4, 4) if bias else None
    exact(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), (q, k, v), before)


def rms(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def layer(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


@pytest.mark.parametrize("zero", [False, True], ids=["any baseline", "zero"])
@pytest.mark.parametrize("centred", [False, True], ids=["RMSNorm", "LayerNorm"])
def test_norms_are_one_however_they_are_written(centred: bool, zero: bool) -> None:
    """A baseline without any spread divides by epsilon: its multipliers are as small as others."""
    x, x0, slot = draw(2, 3, 5), draw(2, 3, 5), draw(2, 3, 5)
    if zero:
        x0 = torch.zeros_like(x0)
    name, spelled = ("layer_norm", layer) if centred else ("rms_norm", rms)
    weight = draw(5)
    (found,) = multipliers(lambda x: getattr(F, name)(x, (5,), weight, eps=1e-6), (x,), (x0,), slot)
    for n, row in oracle_named.every(x[..., 0]):
        close(
            found[n, row],
            oracle_named.norm_multipliers(
                x[n, row], x0[n, row], weight, slot[n, row], 1e-6, centred
            ),
        )
    (written,) = multipliers(lambda x: spelled(x) * weight, (x,), (x0,), slot)
    close(written, found)
    assert found.abs().max() < 50


@pytest.mark.parametrize(
    "part",
    [
        lambda x: F.group_norm(x, 2), lambda x: F.instance_norm(x), lambda x: F.normalize(x, dim=1),
        lambda x: x / x.norm(dim=-1, keepdim=True), lambda x: x.log_softmax(-1),
        lambda x: x.var(-1), lambda x: x.std(-1), lambda x: x.cumsum(-1), F.glu, torch.sigmoid,
        F.gelu, F.silu, F.relu, F.leaky_relu, torch.exp, torch.abs, lambda x: x.square().mean(1),
        lambda x: 1 / (3 + x.tanh()), lambda x: x.tanh() / (3 + x.sigmoid()),
        lambda x: x * x.sigmoid(),
    ],
)  # fmt: skip
def test_what_else_a_model_computes(part: Part) -> None:
    exact(part, (draw(2, 4, 6),), (draw(2, 4, 6),))


def test_a_divisor_of_both_signs() -> None:
    u, v, u0 = draw(2, 8), draw(2, 8), draw(2, 8)
    v0 = torch.where(torch.arange(8) < 4, v.abs() + 1, -v.abs() - 1)
    v = v.abs() + 0.5
    found = exact(torch.div, (u, v), (u0, v0))
    for n, i in oracle_named.every(u[:, :4]):
        values = (float(t[n, i]) for t in (u, v, u0, v0))
        slot = found[0][n, i] * (v[n, i] + v0[n, i]) / 2
        left, right = oracle_named.quotient_multipliers(*values)
        close(found[0][n, i], slot * left)
        close(found[1][n, i], slot * right)


def test_where_nothing_changes_the_multiplier_is_the_derivative() -> None:
    """Also where the change is lost in rounding."""
    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs.double())
    trace, leaf = recording.trace, recording.trace.seen.roots[0].leaf
    seed = torch.zeros_like(trace.output)
    seed[:, 1] = 1
    (slope,) = trace.backward(GRADIENT, [(trace.output, seed)], [leaf])
    for change in (0.0, 1e-12, 1e-9):
        value = leaf.detach() + change
        other = whyformer.Explainer(model).record(value).trace
        table = deeplift_table(paired(trace, other))
        (found,) = trace.backward(table, [(trace.output, seed)], [leaf])
        close(found, slope, 1e-4)


# -- whole models


def change_of(recording: whyformer.Recording, baseline: float | Tensor = 0.0) -> Tensor:
    """What the asked logits of a batch lose without the content, by the model itself."""
    seed = one_logit_each(recording.logits)
    question = recording._question(
        whyformer.engine.PRESETS["stable"], [(recording.trace.output, seed)]
    )
    forward = recording.forward
    before = forward(blank(question, forward.root, baseline), *forward.sides).detach()
    return ((recording.logits - before) * seed).flatten(1).sum(1)


def targets(recording: whyformer.Recording) -> list[Any]:
    last = recording.logits.shape[1] - 1
    return [1, 2] if recording.logits.ndim == 2 else [(last, 1), (last, 2)]


@pytest.mark.parametrize("name", MODELS)
def test_contributions_sum_to_the_change(name: str) -> None:
    model, inputs = MODELS[name]()
    recording = whyformer.Explainer(noised(model)).record(inputs)
    for baseline in (0.0, 0.3):
        found = recording.explain(targets(recording), "deeplift", baseline=baseline)
        change = change_of(recording, baseline)
        assert change.abs().min() > 1e-3
        torch.testing.assert_close(found.relevance.sum(-1), change, rtol=1e-9, atol=1e-9)
        assert not any(part.relevance.any() for part in found.parts[1:])


def test_single_precision_is_close() -> None:
    for name in ("ViT", "Llama"):
        model, inputs = MODELS[name]()
        recording = whyformer.Explainer(noised(model)).record(inputs)
        double = recording.explain(targets(recording), "deeplift").relevance
        inputs = {k: v.float() if v.is_floating_point() else v for k, v in inputs.items()}
        single = whyformer.Explainer(model.float()).record(inputs)
        found = single.explain(targets(single), "deeplift").relevance
        close(found.double(), double, 2e-3)


def test_what_equals_the_baseline_gets_nothing() -> None:
    """The method's blind spot: a black patch before a black baseline says nothing, ever."""
    model, image = HandWritten().double().eval(), pixels().double()
    image[:, :, :8, :8] = 0
    explainer = whyformer.Explainer(model)
    black = explainer(image, 1, "deeplift").relevance
    grey = explainer(image, 1, "deeplift", baseline=0.5).relevance
    assert not black[:, 1].any()
    assert (grey[:, 1].abs() > 1e-6).all()


class Choosing(nn.Module):
    """Attention, then the largest of all tokens, feature by feature."""

    def forward(self, x: Tensor) -> Tensor:
        return ((x @ x.mT).softmax(-1) @ x).amax(1)


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = (x @ x.mT).softmax(-1) @ x
        return (y.relu() if x.any() else y.tanh()).mean(1)


def test_what_cannot_be_compared_is_refused() -> None:
    x = draw(2, 5, 4) + 1
    with pytest.raises(whyformer.ModelError, match="the contributions sum to"):
        whyformer.Explainer(Choosing())(x, 1, "deeplift", baseline=draw(5, 4))
    with pytest.raises(whyformer.ModelError, match=r"relu on .* became tanh on"):
        whyformer.Explainer(Branching())(x, 1, "deeplift")
    with pytest.raises(whyformer.InputError, match=r"baseline has shape \(3,\)"):
        whyformer.Explainer(Branching())(x, 1, "deeplift", baseline=torch.zeros(3))


# -- DeepSHAP


def test_deepshap_is_the_mean_over_baselines() -> None:
    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs.double())
    given = draw(3, 3, 32, 32)
    found = recording.explain([1, 2], "deepshap", baselines=given)
    each = [recording.explain([1, 2], "deeplift", baseline=one) for one in given]
    close(found.relevance, torch.stack([e.relevance for e in each]).mean(0))
    mean = torch.stack([change_of(recording, one) for one in given]).mean(0)
    close(found.relevance.sum(-1), mean)
    assert not torch.allclose(each[0].relevance, each[1].relevance)


def test_deepshap_depends_on_its_baselines() -> None:
    """Which noise is drawn decides the map, and what all baselines share with x gets nothing."""
    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs.double())
    given = draw(6, 3, 32, 32)
    given[..., :16, :] = inputs[:1, :, :16].double()
    first, second = (
        recording.explain(1, "deepshap", baselines=part).relevance[0] for part in given.split(3)
    )
    upper, lower = first[1:].chunk(2)
    assert not upper.any()
    assert lower.any()
    assert correlation(first, second) < 0.9


def test_deepshap_draws_its_baselines() -> None:
    from whyformer.methods.deeplift import noise

    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs.double())
    drawn = [noise(asked_of(recording), number) for number in range(2)]
    each = [recording.explain(1, "deeplift", baseline=one).relevance for one in drawn]
    close(recording.explain(1, "deepshap", samples=2).relevance, (each[0] + each[1]) / 2)
    assert not torch.allclose(each[0], each[1])


def asked_of(recording: whyformer.Recording) -> Any:
    return recording._question(
        whyformer.engine.PRESETS["stable"],
        [(recording.trace.output, torch.ones_like(recording.logits))],
    )


def test_drawn_baselines_are_like_the_sample() -> None:
    """The same mean and spread, feature by feature; no neighbour and no padding counts."""
    from whyformer.methods.deeplift import noise

    model, inputs = CASE["BERT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs)
    question = asked_of(recording)
    drawn = torch.stack([noise(question, number) for number in range(400)])
    content = question.input[1, 1:6]
    assert (drawn[:, 1].mean((0, 1)) - content.mean(0)).abs().max() < 0.01
    assert (drawn[:, 1].std((0, 1)) - content.std(0, correction=0)).abs().max() < 0.01
    assert torch.equal(noise(question, 3), noise(question, 3))


def test_bad_options() -> None:
    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model).record(inputs)
    with pytest.raises(
        whyformer.InputError, match="samples is 0; expected a whole number of at least 1"
    ):
        recording.explain(1, "deepshap", samples=0)
    with pytest.raises(whyformer.InputError, match=r"expected several inputs of shape \(3, 32"):
        recording.explain(1, "deepshap", baselines=torch.zeros(3, 32, 32))


@pytest.mark.parametrize("method", ["deeplift", "deepshap"])
@pytest.mark.parametrize("name", ["ViT", "BERT", "by hand, mean-pooled", "nn.TransformerEncoder"])
def test_a_sample_gets_the_same_map_alone_and_in_a_batch(name: str, method: str) -> None:
    same_alone_and_in_a_batch(name, method)


# -- beside Captum


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Sigmoid(), nn.Flatten(),
            nn.Linear(40, 3),
        ).double()  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@pytest.mark.interop
def test_without_attention_it_is_captums() -> None:
    from captum.attr import DeepLift

    model, x = Perceptron(), draw(2, 5, 4)
    expected = DeepLift(model).attribute(x.requires_grad_(), torch.zeros_like(x), target=1)
    found = whyformer.Explainer(model)(x.detach(), 1, "deeplift").relevance
    close(found, expected.sum(-1).detach())


@pytest.mark.interop
def test_in_attention_captums_hooks_see_nothing() -> None:
    """Its contributions miss the change; these do not."""
    from captum.attr import DeepLift

    model, image = HandWritten().double().eval(), pixels().double()
    change = (model(image) - model(torch.zeros_like(image)))[:, 1].detach()
    theirs = DeepLift(model).attribute(image.requires_grad_(), torch.zeros_like(image), target=1)
    mine = whyformer.Explainer(model)(image.detach(), 1, "deeplift").relevance
    close(mine.sum(-1), change)
    assert ((theirs.flatten(1).sum(1) - change).abs() > 0.05 * change.abs()).any()
