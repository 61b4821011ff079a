"""Excitation Backprop, and relevance contrasted with that of the other classes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import oracle_named
import whyformer
from probe import close, draw, pairs_by_sample, relevances
from test_completeness import MODELS, noised
from test_tiny_transformer import KINDS, Tiny, by_hand
from whyformer.demo.scenes import draw_scene
from whyformer.engine import PRESETS
from whyformer.engine.rules.named import EXCITATION
from zoo import CASES

CASE = {case.name: case for case in CASES}
CONTRASTS = ("clrp", "sglrp")
OF = (
    "lrp", "attribution", "partial_lrp", "transformer_attribution", "ablation_no_gradient",
    "ablation_last_block", "ablation_second_block", "attnlrp", "cp_lrp", "excitation_backprop",
    "rap", "agf",
)  # fmt: skip


def alone(inputs: Any, sample: int) -> Any:
    """One sample of a batch, without its padding."""
    if isinstance(inputs, Tensor):
        return inputs[sample : sample + 1]
    length = int(inputs["attention_mask"][sample].sum())
    return {key: value[sample : sample + 1, :length] for key, value in inputs.items()}


def same_alone_and_in_a_batch(name: str, method: str, **options: Any) -> None:
    model, inputs = CASE[name].make()
    explainer = whyformer.Explainer(model.double())
    together = explainer(inputs, 1, method, **options).relevance
    for sample in range(2):
        found = explainer(alone(inputs, sample), 1, method, **options).relevance[0]
        torch.testing.assert_close(found, together[sample, : len(found)], rtol=1e-8, atol=1e-8)
        assert not together[sample, len(found) :].any()


def correlation(u: Tensor, v: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([u.flatten(), v.flatten()]))[0, 1])


# -- Excitation Backprop


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_excitation_backprop_by_hand(kind: str, fused: bool) -> None:
    """A whole Transformer walked down with the oracle's rules."""
    model = Tiny(kind, fused)
    x, targets = model.inputs(2), [2, 0]
    found = whyformer.Explainer(model)(x, targets, "excitation_backprop")
    for n, target in enumerate(targets):
        expected = by_hand(model, x[n], target, oracle_named.EXCITATION).input_relevance
        close(found.input_relevance[n], expected.sum(0 if kind == "image" else -1))


def test_a_product_that_is_no_attention_is_halved() -> None:
    u, v, relevance = draw(2, 3, 4), draw(2, 4, 5), draw(2, 3, 5).abs()
    found = relevances(lambda u, v: u @ v, (u, v), relevance, EXCITATION)
    expected = pairs_by_sample(
        lambda *one: oracle_named.halved_sizes(oracle_named.positive, *one), u, v, relevance
    )
    for part, other in zip(found, expected, strict=True):
        close(part, other)
    einsum = relevances(
        lambda u, v: torch.einsum("bij,bjk->bik", u, v), (u, v), relevance, EXCITATION
    )
    for part, other in zip(einsum, expected, strict=True):
        close(part, other)


@pytest.mark.parametrize("name", ["ViT", "BERT", "by hand, einsum", "by hand, mean-pooled"])
def test_excitation_backprop_is_a_probability(name: str) -> None:
    """Nothing is negative, and what is lost is at most what constants excited."""
    model, inputs = CASE[name].make()
    found = whyformer.Explainer(model.double())(inputs, 1, "excitation_backprop")
    assert (found.input_relevance >= 0).all()
    total = found.input_relevance.flatten(1).sum(1)
    assert (total > 0.1).all()
    assert (total <= 1 + 1e-9).all()


def test_excitation_backprop_is_nearly_class_blind() -> None:
    """Two digits: the maps of both are the same, where the paper's method tells them apart."""
    scene = draw_scene(0, 2)
    recording = whyformer.load("demo-vision").record(scene.image)
    maps = {
        method: [recording.explain(str(label), method).relevance[:, 1:] for label in scene.labels]
        for method in ("excitation_backprop", "transformer_attribution")
    }
    assert correlation(*maps["excitation_backprop"]) > 0.99
    assert correlation(*maps["transformer_attribution"]) < 0.8


# -- contrasts


@pytest.mark.parametrize("preset", ["stable", "paper"])
def test_contrasts_are_their_definitions(preset: str) -> None:
    """The papers' own seeds, y_t and p_t p_i: the same maps but for one factor a sample."""
    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs.double())
    logits, target = recording.logits, [1, 4]
    trace, table = recording.trace, PRESETS[preset].lrp
    pixels = [root.leaf for root in trace.seen.roots]

    def relevance(seed: Tensor) -> Tensor:
        (found,) = trace.backward(table, [(trace.output, seed)], pixels)
        return found.sum(1)

    own = torch.zeros_like(logits)
    own[[0, 1], target] = 1
    y, p = (logits * own).sum(1, keepdim=True).abs(), logits.softmax(-1)
    chosen = (p * own).sum(1, keepdim=True)
    seeds = {
        "clrp": (own * y, (1 - own) * y / (logits.shape[1] - 1), y),
        "sglrp": (own * chosen * (1 - chosen), (1 - own) * chosen * p, chosen * (1 - chosen)),
    }
    for method, (mine, theirs, factor) in seeds.items():
        expected = (relevance(mine) - relevance(theirs)).clamp(min=0)
        found = recording.explain(target, method, preset).input_relevance
        close(found * factor.unsqueeze(-1), expected)


@pytest.mark.parametrize("of", OF)
@pytest.mark.parametrize("method", CONTRASTS)
def test_a_contrast_is_of_any_relevance(method: str, of: str) -> None:
    model, inputs = CASE["BERT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs)
    found = recording.explain(1, method, of=of).relevance
    name, options = (of, {}) if of != "attribution" else ("lrp", {"rules": "attribution"})
    logits = recording.logits
    rivals = torch.ones_like(logits) / 2 if method == "clrp" else logits.softmax(-1)
    rivals[:, 1] = 0
    rivals = rivals / rivals.sum(-1, keepdim=True)
    weights = rivals.clone()
    theirs = recording.explain(lambda out: (out.logits * weights).sum(-1), name, **options)
    mine = recording.explain(1, name, **options)
    close(found, (mine.relevance - theirs.relevance).clamp(min=0))
    assert (found >= 0).all()


@pytest.mark.parametrize("method", CONTRASTS)
def test_a_position_is_contrasted_with_its_own_classes(method: str) -> None:
    model, inputs = MODELS["GPT-2"]()
    recording = whyformer.Explainer(noised(model)).record(inputs)
    (first, last) = (recording.explain([(place, 7)] * 2, method).relevance for place in (2, 8))
    assert not first[:, 3:].any()
    assert last[:, 3:].any()


@pytest.mark.parametrize("method", CONTRASTS)
def test_a_contrast_collapses_where_relevance_is_not_conserved(method: str) -> None:
    """LRP's sums differ from class to class; then the sums decide, and the places hardly do."""
    model, inputs = CASE["BERT"].make()
    recording = whyformer.Explainer(model.double()).record(inputs)
    sums = torch.stack([recording.explain(t, "lrp").relevance[0].sum() for t in range(3)])
    assert sums.max() - sums.min() > 0.05
    assert recording.explain(int(sums.argmin()), "lrp").relevance[0].any()
    assert not recording.explain(int(sums.argmin()), method).relevance[0].any()
    assert recording.explain(int(sums.argmax()), method).relevance[0].count_nonzero() > 5


@pytest.mark.parametrize("method", CONTRASTS)
def test_where_there_is_nothing_to_contrast(method: str) -> None:
    model, inputs = CASE["ViT"].make()
    recording = whyformer.Explainer(model).record(inputs)
    with pytest.raises(whyformer.TargetError, match="a function or a contrast of several"):
        recording.explain(whyformer.contrast(1, 2), method)
    with pytest.raises(whyformer.TargetError, match="a function or a contrast of several"):
        recording.explain(lambda out: out.logits[:, 0] * 2, method)
    with pytest.raises(whyformer.UnknownNameError, match="did you mean 'partial_lrp'"):
        recording.explain(1, method, of="partial-lrp")
    single = whyformer.Explainer(model, output=lambda out: out.logits[:, :1])
    with pytest.raises(whyformer.TargetError, match="the model has one output"):
        single(inputs, 0, method)


@pytest.mark.parametrize("method", ["excitation_backprop", *CONTRASTS])
@pytest.mark.parametrize("name", ["ViT", "BERT", "by hand, mean-pooled", "nn.TransformerEncoder"])
def test_a_sample_gets_the_same_map_alone_and_in_a_batch(name: str, method: str) -> None:
    same_alone_and_in_a_batch(name, method)
