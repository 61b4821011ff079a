"""What an explanation promises: signs, rows, bounded memory, copies, an untouched model."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from whyformer.engine import GRADIENTS, PRESETS, Preset
from whyformer.memory import BoundedMemory
from whyformer.methods.question import Answer
from zoo import CASES, Block

CASE = {case.name: case for case in CASES}


class Features(nn.Module):
    """Two blocks on a sequence of features."""

    def __init__(self, statistics: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Parameter(torch.randn(30, 16))
        self.norm = nn.BatchNorm1d(16) if statistics else nn.Identity()
        self.blocks = nn.Sequential(*(Block(16, 2, "matmul") for _ in range(2)))
        self.head = nn.Linear(16, 12)
        self.double().eval()

    def forward(self, x: Tensor) -> Tensor:
        x = x if x.is_floating_point() else nn.functional.embedding(x, self.table)
        return self.head(self.blocks(self.norm(x.mT).mT)[:, 0])


def features(batch: int = 2) -> Tensor:
    return torch.randn(batch, 5, 16, dtype=torch.float64)


@pytest.fixture
def explainer() -> whyformer.Explainer:
    return whyformer.Explainer(Features())


# -- signs


def double(name: str) -> tuple[nn.Module, Any]:
    model, inputs = CASE[name].make()
    return model.double(), inputs


@pytest.mark.parametrize("name", ["ViT", "BERT", "by hand, mean-pooled"])
@pytest.mark.parametrize("preset", ["stable", "paper", "reference", "epsilon", "gamma", "attnlrp"])
def test_lrp_is_linear_in_the_target(name: str, preset: str) -> None:
    model, inputs = double(name)
    recording = whyformer.Explainer(model).record(inputs)

    def lrp(target: Any) -> Tensor:
        return recording.explain(target, "lrp", preset).relevance

    scores = (lambda out: out) if name.startswith("by hand") else (lambda out: out.logits)
    a, b = lrp(0), lrp(2)
    assert not torch.allclose(a, b)
    assert torch.allclose(lrp(whyformer.contrast(0, 2)), (a - b) / 2)
    assert torch.allclose(lrp(whyformer.contrast(2, 0)), (b - a) / 2)
    assert torch.allclose(lrp(lambda out: -scores(out)[:, 0]), -a)
    assert torch.allclose(lrp(lambda out: scores(out)[:, 0] + scores(out)[:, 2]), (a + b) / 2)
    mixed = lrp(lambda out: 3 * scores(out)[:, 0] - scores(out)[:, 2])
    assert torch.allclose(mixed, (3 * a - b) / 4)


def test_partial_lrp_of_a_contrast_is_the_difference_of_the_last_maps(explainer: Any) -> None:
    """(R_a - R_b) / 2 of the last map, then its positive part, averaged over the heads."""
    recording = explainer.record(features())
    trace = recording.trace

    def last(target: int) -> Tensor:
        seed = torch.zeros_like(trace.output)
        seed[:, target] = 1
        of = [trace.seen.attention[-1].weights]
        return trace.backward(PRESETS["stable"].lrp, [(trace.output, seed)], of)[0]

    found = recording.explain(whyformer.contrast(3, 1), "partial_lrp").relevance
    by_hand = ((last(3) - last(1)) / 2).clamp(min=0).mean(1)[:, 0]
    assert torch.allclose(found, by_hand)
    against = recording.explain(lambda out: -out[:, 3], "partial_lrp").relevance
    assert torch.allclose(against, (-last(3)).clamp(min=0).mean(1)[:, 0])


@pytest.mark.parametrize("method", ["ablation_no_gradient", "transformer_attribution"])
def test_a_contrast_is_no_sum(explainer: Any, method: str) -> None:
    recording = explainer.record(features())
    both = lambda y: y[:, 1] + y[:, 3]  # noqa: E731
    maps = [
        recording.explain(target, method).relevance
        for target in (whyformer.contrast(3, 1), whyformer.contrast(1, 3), both)
    ]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not torch.allclose(maps[i], maps[j], rtol=1e-3)


def test_lrp_of_a_bias_free_network_of_features_is_gradient_times_input() -> None:
    """The epsilon rule on Linear and ReLU without biases: x dy/dx, of a relevance of one."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(
                nn.Linear(16, 32, bias=False), nn.ReLU(), nn.Linear(32, 3, bias=False)
            ).double()

        def forward(self, x: Tensor) -> Tensor:
            return self.layers(x).sum(1)

    model, x = Plain(), features().requires_grad_()
    score = model(x)[:, 1]
    (slope,) = torch.autograd.grad(score.sum(), x)
    by_hand = ((x * slope).sum(-1) / score.unsqueeze(1)).detach()
    found = whyformer.Explainer(model)(x, 1, "lrp", "epsilon")
    assert found.tokens.kind == "sequence"
    assert torch.allclose(found.relevance, by_hand, rtol=1e-3)


@pytest.mark.parametrize("preset", ["stable", "paper", "reference", "epsilon", "gamma", "attnlrp"])
def test_lrp_of_features_is_that_of_words_embedded_so(explainer: Any, preset: str) -> None:
    ids = torch.randint(0, 30, (2, 5))
    words = explainer(ids, 4, "lrp", preset)
    found = explainer(explainer.model.table.detach()[ids], 4, "lrp", preset)
    assert words.relevance.any()
    assert torch.allclose(found.relevance, words.relevance)


# -- heads that read different tokens for different classes


class ClassTokens(nn.Module):
    """Every class has a token of its own, before the input's; or the class ``only`` is read."""

    def __init__(self, head: str = "own token", only: Any = None) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.classes = nn.Parameter(torch.randn(1, 3, 16))
        self.blocks = nn.Sequential(*(Block(16, 2, "matmul") for _ in range(2)))
        self.weights = nn.Linear(16, 3)
        self.head, self.only = head, only
        self.double().eval()

    def forward(self, x: Tensor) -> Tensor:
        if self.head == "own token":
            x = torch.cat([self.classes.expand(len(x), -1, -1), x], 1)
        every = self.weights(self.blocks(x))
        if self.only is not None:
            return every[:, self.only]
        return every.diagonal(dim1=1, dim2=2)[:, :3] if self.head != "strongest" else every.amax(1)


@pytest.mark.parametrize(
    "method", ["transformer_attribution", "generic_attention", "lrp", "gradcam", "gradient_x_input"]
)
@pytest.mark.parametrize("head", ["own token", "own word", "strongest"])
def test_each_class_is_explained_by_the_token_that_it_reads(head: str, method: str) -> None:
    """A class's map is that of a model that reads its token alone."""
    x = torch.randn(1, 6, 16, dtype=torch.float64)
    model = ClassTokens(head)
    recording = whyformer.Explainer(model).record(x)
    plain = ClassTokens(head, only=slice(None))(x)
    maps = []
    for c in range(3):
        token = int(plain[0, :, c].argmax()) if head == "strongest" else c
        rows = torch.zeros(1, plain.shape[1], dtype=x.dtype)
        rows[0, token] = 1
        assert torch.allclose(recording.rows(c), rows)
        found = recording.explain(c, method)
        expected = whyformer.Explainer(ClassTokens(head, only=token))(x, c, method)
        assert torch.allclose(found.logits[:, c], expected.logits[:, c])
        assert torch.allclose(found.relevance, expected.relevance)
        maps.append(found.relevance)
    assert any(found.any() for found in maps)
    several = whyformer.Explainer(model)(x, [[0, 1, 2]], method).relevance
    assert torch.allclose(several, torch.stack(maps, 1))


# -- memory


@pytest.mark.parametrize("method", ["transformer_attribution", "partial_lrp", "generic_attention"])
def test_what_is_remembered_is_bounded_in_bytes(explainer: Any, method: str) -> None:
    """Ten targets keep less than the bound and one more; forgotten ones are answered as before."""
    recording = explainer.record(features())
    recording._memory = memory = BoundedMemory(most=10**9)
    first = recording.explain(0, method).relevance
    one = memory.bytes()
    maps = recording.trace.seen.attention[0].weights
    assert one >= maps.numel() * maps.element_size()
    memory.most = bound = 3 * one
    for target in range(1, 11):
        recording.explain(target, method)
        assert memory.bytes() <= bound + one
    assert memory.bytes() > one
    assert torch.equal(recording.explain(0, method).relevance, first)


def test_a_bound_of_nothing_keeps_the_last_target_alone() -> None:
    memory = BoundedMemory(most=0)
    output = torch.zeros(1, 4)
    for target in range(4):
        seed = nn.functional.one_hot(torch.tensor([target]), 4).float()
        memory.of([(output, seed)])["maps"] = (None, [torch.zeros(100)])
        assert memory.bytes() == 400
    assert memory.of([(output, seed)])["maps"][1][0].shape == (100,)


def test_products_of_streams_are_streams_times_their_gradients(explainer: Any) -> None:
    """What is summed on the way is what the kept gradients give."""
    recording = explainer.record(features())
    (start,) = recording._resolve(1).starts
    question = recording._question(PRESETS["stable"], start)
    for table in GRADIENTS.values():
        kept = [(value * slope).sum(-1) for value, slope in question.streams(table)]
        for found, expected in zip(question.stream_products(table), kept, strict=True):
            assert torch.equal(found, expected)


# -- copies


@pytest.mark.parametrize("make", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_an_explainer_can_be_copied(explainer: Any, make: Callable[[Any], Any]) -> None:
    x = features()
    expected = explainer(x, 1)
    for original in (explainer, whyformer.Explainer(CASE["BERT"].make()[0])):
        other = make(original)
        assert other.model is not original.model
        assert other.labels == original.labels
    other = make(explainer)
    assert torch.equal(other(x, 1).relevance, expected.relevance)
    with torch.no_grad():
        explainer.model.head.weight.zero_()
    assert torch.equal(other.record(x).explain(1).relevance, expected.relevance)


def test_a_recording_says_that_it_cannot_be_copied(explainer: Any) -> None:
    recording = explainer.record(features())
    assert copy.copy(recording).trace is recording.trace
    for make in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a recording holds the model's forward"):
            make(recording)


@pytest.mark.parametrize("make", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_pipeline_and_an_explanation_can_be_copied(make: Callable[[Any], Any]) -> None:
    why = whyformer.load("demo-text")
    expected = why("a lifeless film")
    assert torch.equal(make(why)("a lifeless film").relevance, expected.relevance)
    kept = make(expected)
    assert torch.equal(kept.relevance, expected.relevance)
    assert kept.words() == expected.words()


# -- rules of one's own


@dataclass(frozen=True)
class Weighted:
    """x (w + gamma w^+), divided by its sum; without gamma it is the epsilon rule."""

    gamma: float

    def __call__(self, op: Any, relevance: Tensor) -> tuple[Tensor]:
        weight = op.weight + self.gamma * op.weight.clamp(min=0)
        z = op.y if self.gamma == 0 else op.apply(op.x, weight)
        s = relevance / (z + 1e-6 * torch.where(z < 0, -1.0, 1.0))
        return (op.x * op.transpose(s, weight),)


def test_a_rule_with_a_parameter(explainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, epsilon = features(), PRESETS["epsilon"]
    for name, gamma in (("none", 0.0), ("some", 0.5)):
        table = replace(epsilon.lrp, learned=Weighted(gamma), places=())
        monkeypatch.setitem(PRESETS, name, Preset(name, table, table))
    recording = explainer.record(x)
    for method in ("lrp", "partial_lrp", "transformer_attribution"):
        expected = explainer(x, 1, method, "epsilon").relevance
        for found in (explainer(x, 1, method, "none"), recording.explain(1, method, "none")):
            assert torch.allclose(found.relevance, expected, rtol=1e-6)
        some = recording.explain(1, method, "some").relevance
        assert torch.allclose(some, explainer(x, 1, method, "some").relevance)
        assert not torch.allclose(some, expected, rtol=1e-2)


# -- comparing


def test_equality_is_identity(explainer: Any) -> None:
    """What holds tensors is compared as an object, can be looked up, and never raises."""
    x = features()
    one, other = (explainer(x, 1, keep_blocks=True) for _ in range(2))
    answers = [Answer(e.relevance) for e in (one, other)]
    pairs = [
        (one, other),
        (one.parts[0], other.parts[0]),
        (one.tokens, other.tokens),
        (one.blocks, other.blocks),
        answers,
    ]
    for a, b in pairs:
        assert a == a
        assert a != b
        assert a in [b, a]
        assert len({a, b}) == 2
        assert any(isinstance(getattr(a, f.name), Tensor | list | tuple) for f in fields(a))


# -- the model stays as it is


def test_batch_statistics_are_as_before() -> None:
    """In training mode BatchNorm counts batches and moves its means; not while it is explained."""
    model, x = Features(statistics=True).train(), features(4)
    model.blocks.eval()  # they would drop values at random
    explainer = whyformer.Explainer(model)
    before = copy.deepcopy(model.state_dict())
    expected = copy.deepcopy(model)(x)
    found = explainer(x, 1)
    recording = explainer.record(x)
    recording.explain(2, "lrp")
    with pytest.raises(whyformer.InputError):
        explainer(torch.randn(4, 5, 3))
    assert torch.allclose(found.logits, expected)
    assert not torch.allclose(expected, copy.deepcopy(model).eval()(x))
    assert set(before) == set(model.state_dict())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert model.norm.num_batches_tracked == 0
    assert any("training mode" in note for note in found.notes)
    assert model.training
