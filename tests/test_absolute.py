"""Relevance by absolute contributions: RAP and AGF."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import oracle_named
import whyformer
from probe import close, draw, relevances
from test_completeness import MODELS, noised
from test_named_methods import CASE, correlation, same_alone_and_in_a_batch
from test_tiny_transformer import KINDS, Tiny, by_hand
from whyformer.demo.scenes import draw_scene
from whyformer.engine.rules.named import RAP
from whyformer.engine.samples import Samples


def test_relative_contributions() -> None:
    x, weight, bias, relevance = draw(2, 5, 6), draw(4, 6), draw(4), draw(2, 5, 4)
    x[0, 0] = 0
    x[0, 1, 2] = 0
    (found,) = relevances(lambda x: F.linear(x, weight, bias), (x,), relevance, RAP)
    expected = oracle_named.relative_contributions(x, weight, relevance, lambda r, z: r / z)
    close(found, expected)
    close(found[:, 1:].sum(-1), relevance[:, 1:].sum(-1))


def test_a_convolution_is_shifted_as_a_whole() -> None:
    """Behind another operation, as the first one reads the pixels by z^B."""
    x, kernel, relevance = draw(2, 2, 4, 4), draw(3, 2, 2, 2), draw(2, 3, 2, 2)
    table = replace(RAP, places=())
    (found,) = relevances(lambda x: F.conv2d(x, kernel, stride=2), (x,), relevance, table)
    close(found.flatten(1).sum(1), relevance.flatten(1).sum(1))
    (alone,) = relevances(lambda x: F.conv2d(x, kernel, stride=2), (x[:1],), relevance[:1], table)
    close(alone, found[:1])


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rap_by_hand(kind: str, fused: bool) -> None:
    model = Tiny(kind, fused)

    def learned(x: Tensor, weight: Tensor, r: Tensor, divide: Any) -> Tensor:
        head = weight is model.head.weight
        rule = oracle_named.absolute_contributions if head else oracle_named.relative_contributions
        return rule(x, weight, r, divide)

    x, targets = model.inputs(2), [2, 0]
    found = whyformer.Explainer(model)(x, targets, "rap")
    for n, target in enumerate(targets):
        rules = replace(oracle_named.ABSOLUTE, learned=learned)
        expected = by_hand(model, x[n], target, rules).input_relevance
        close(found.input_relevance[n], expected.sum(0 if kind == "image" else -1))


def values_and_gradients(model: Tiny, x: Tensor, target: int) -> dict[int, tuple[Tensor, Tensor]]:
    """Of every Linear's operand, by where its weight lies; without whyformer."""
    seen: dict[int, Tensor] = {}
    hooks = [
        module.register_forward_pre_hook(
            lambda module, given: seen.__setitem__(module.weight.data_ptr(), given[0])
        )
        for module in model.modules()
        if isinstance(module, nn.Linear)
    ]
    logits = model(x[None])
    slopes = torch.autograd.grad(logits[0, target], list(seen.values()))
    for hook in hooks:
        hook.remove()
    return {key: (seen[key].detach()[0], g[0]) for key, g in zip(seen, slopes, strict=True)}


@pytest.mark.parametrize("kind", KINDS)
def test_agf_by_hand(kind: str) -> None:
    model = Tiny(kind)
    x, targets = model.inputs(2), [2, 0]
    found = whyformer.Explainer(model)(x, targets, "agf")
    for n, target in enumerate(targets):
        known = values_and_gradients(model, x[n], target)

        def learned(
            x: Tensor, weight: Tensor, r: Tensor, divide: Any, known: Any = known
        ) -> Tensor:
            carried = oracle_named.absolute_contributions(x, weight, r, divide)
            if x.ndim == 1:
                return carried
            return oracle_named.guided(carried, *known[weight.data_ptr()])

        rules = replace(oracle_named.ABSOLUTE, learned=learned)
        expected = by_hand(model, x[n], target, rules).input_relevance
        close(found.input_relevance[n], expected.sum(0 if kind == "image" else -1))


@pytest.mark.parametrize("method", ["rap", "agf"])
def test_relevance_is_kept_where_no_constant_takes_a_share(method: str) -> None:
    model, inputs = CASE["BERT"].make()
    found = whyformer.Explainer(model.double())(inputs, 1, method).relevance
    close(found.sum(-1), torch.ones(2).double())


def test_rap_does_not_know_the_class_and_agf_does() -> None:
    """Two digits: RAP's maps of both are one map; AGF's guide tells them apart."""
    scene = draw_scene(1, 2)
    recording = whyformer.load("demo-vision").record(scene.image)
    maps = {
        method: [recording.explain(str(label), method).relevance[:, 1:] for label in scene.labels]
        for method in ("rap", "agf")
    }
    assert correlation(*maps["rap"]) > 0.999
    assert correlation(*maps["agf"]) < 0.9


@pytest.mark.parametrize("name", ["ViT", "BERT"])
def test_the_guide_of_agf_drowns_what_is_carried(name: str) -> None:
    """It is up to one in each of many features, and all relevance is one: sizes grow."""
    model, inputs = CASE[name].make()
    recording = whyformer.Explainer(model.double()).record(inputs)
    sizes = {
        method: recording.explain(1, method).relevance.abs().sum(-1) for method in ("rap", "agf")
    }
    assert (sizes["rap"] < 3).all()
    assert (sizes["agf"] > 50).all()


@pytest.mark.parametrize("method", ["rap", "agf"])
@pytest.mark.parametrize(
    "name",
    ["ViT", "BERT", "by hand, mean-pooled", "nn.TransformerEncoder, sequence first"],
)
def test_a_sample_gets_the_same_map_alone_and_in_a_batch(name: str, method: str) -> None:
    same_alone_and_in_a_batch(name, method)


@pytest.mark.parametrize("method", ["rap", "agf"])
def test_windows(method: str) -> None:
    """The batch is folded into windows."""
    model, inputs = MODELS["Swin"]()
    explainer = whyformer.Explainer(noised(model))
    together = explainer(inputs, 1, method).relevance
    for n in range(2):
        image = {"pixel_values": inputs["pixel_values"][n : n + 1]}
        close(explainer(image, 1, method).relevance[0], together[n], 1e-8)


def test_the_highest_is_a_samples_not_a_windows() -> None:
    ids = torch.tensor([0, 0, 1, 1])
    values = torch.tensor([[1.0, 2.0], [5.0, 0.0], [3.0, 3.0], [-1.0, 4.0]])
    found = Samples(0, ids, 2).highest(values)
    assert found.flatten().tolist() == [5.0, 5.0, 4.0, 4.0]
    assert Samples(1, torch.arange(2), 2).highest(values).tolist() == [[5.0, 4.0]]
