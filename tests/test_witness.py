"""Our own method against its formula, in every batch, on other shapes, and where it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import contenders
import whyformer
from contenders import ask, decoder
from test_contenders_fail import Bare, features
from test_streams import bart, swin
from test_tiny_transformer import Tiny, close
from whyformer.engine import GRADIENTS, PRESETS
from whyformer.engine.rules.mass import agreed
from whyformer.methods.registry import BEST_METHOD
from whyformer.methods.witness import apart, remark
from zoo import pixels, quick

KINDS = ("image", "sequence", "mean")


def by_hand(
    model: Tiny, x: Tensor, target: int, content: Tensor, constants: tuple[float, float, float]
) -> Tensor:
    """sign(F) sqrt(|F| S) beside P, with loops over blocks, heads, rows and keys."""
    hearsay, expected, presence = constants
    maps = contenders.maps(model, x, target)
    tokens, blocks = len(maps.rows), len(maps.a)
    heard, said = torch.zeros(tokens).double(), torch.zeros(tokens).double()
    for b in reversed(range(blocks)):
        heads = len(maps.a[b])
        passed = heard.clone()
        for i in range(tokens):
            for a in maps.a[b]:
                passed += hearsay * heard[i] * a[i] / heads
        heard = passed
        pros, cons = torch.zeros(tokens).double(), torch.zeros(tokens).double()
        for i in range(tokens):
            for j in range(tokens):
                read = 0.0
                for a, g in zip(maps.a[b], maps.g[b], strict=True):
                    mean = sum(float(a[i, k] * g[i, k]) for k in range(tokens))
                    read += float(a[i, j] * (g[i, j] - expected * mean)) / heads
                    said[j] += maps.rows[i] * max(float(g[i, j]), 0.0) / heads
                pros[j] += maps.rows[i] * max(read, 0.0)
                cons[j] += maps.rows[i] * max(-read, 0.0)
        for j in range(tokens):
            agreement = abs(pros[j] - cons[j]) / (pros[j] + cons[j])
            heard[j] += pros[j] - agreement * cons[j]
    present = sum((s * slope).sum(-1) for s, slope in zip(maps.x, maps.slope, strict=True))

    def share(values: Tensor) -> Tensor:
        shown = values * content
        return shown / shown.abs().sum()

    def apart(values: Tensor) -> Tensor:
        shown = values[content.bool()]
        common = min(v for v in shown if v > 0) if all(v > 0 for v in shown) else 0.0
        common = max(v for v in shown if v < 0) if all(v < 0 for v in shown) else common
        return (values - common) / shown.std(correction=0)

    f, s = share(heard), share(said)
    root, own = share(f.sign() * (f.abs() * s).sqrt()), share(present)
    if content.sum() < 3:
        return share(root + presence * own)
    return share(apart(root) + presence * apart(own))


@pytest.mark.parametrize("constants", [(0.5, 0.5, 3 / 4), (0.0, 1.0, 0.0), (1.0, 0.0, 2.0)])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_its_formula(kind: str, constants: tuple[float, float, float]) -> None:
    model = Tiny(kind)
    x, targets = model.inputs(2), [2, 0]
    options = dict(zip(("hearsay", "expected", "presence"), constants, strict=True))
    found = ask(model, x, targets, "witness", gradient="gradient", **options)
    assert found.notes == tuple(remark(found.relevance))
    for n, target in enumerate(targets):
        wanted = by_hand(model, x[n], target, found.content[n], constants).detach()
        close(found.relevance[n], wanted, 1e-9)


def windows() -> tuple[nn.Module, dict[str, Tensor]]:
    return swin(), {"pixel_values": pixels().double()}


@pytest.mark.parametrize("make", [windows, bart, decoder])
def test_a_sample_is_explained_as_in_its_batch(make: Callable[[], Any]) -> None:
    model, inputs = make()
    explainer = whyformer.Explainer(model)
    whole = explainer(inputs, 1, "witness")
    for n in range(2):
        alone = explainer({key: value[n : n + 1] for key, value in inputs.items()}, 1, "witness")
        for part, other in zip(whole.parts, alone.parts, strict=True):
            close(part.relevance[n], other.relevance[0], 1e-8)
    assert all(bool(part.relevance.any()) for part in whole.parts)


def test_relevance_has_both_signs_and_its_sizes_sum_to_one() -> None:
    model = Tiny("image")
    x = model.inputs(3)
    found = torch.cat([ask(model, x, target, "witness").relevance for target in range(3)])
    assert (found > 0).any()
    assert (found < 0).any()
    close(found.abs().sum(1), torch.ones(len(found)).double(), 1e-9)


def test_the_class_asked_about_matters() -> None:
    model = Tiny("image")
    x = model.inputs(1)
    one, other = (ask(model, x, target, "witness").relevance for target in (0, 1))
    assert not torch.allclose(one, other, rtol=0.1)


def test_best_is_this_method_and_the_explanation_says_so() -> None:
    model = Tiny("image")
    x = model.inputs(1)
    found = whyformer.Explainer(model)(x, 1, "best")
    assert found.method == BEST_METHOD == "witness"
    assert torch.equal(found.relevance, ask(model, x, 1, "witness").relevance)


def test_options_are_those_of_the_formula() -> None:
    assert quick("witness") == {"progress": False}
    assert whyformer.methods()["witness"].options == [
        "gradient", "hearsay", "expected", "presence", "shifts", "progress",
    ]  # fmt: skip


def test_shares_hide_how_strong_the_evidence_is() -> None:
    """A head of half the weights gives half the logit, and the same map: known, and by design."""
    model, x = Bare(), features()
    whole = ask(model, x, 1, "witness").relevance
    with torch.no_grad():
        model.head.weight /= 2
    close(ask(model, x, 1, "witness").relevance, whole, 1e-9)


def test_a_faint_target_has_the_map_of_a_strong_one() -> None:
    """In single precision: what is handed on does not drown in the rows' own mass."""
    for kind in ("image", "mean"):
        model = Tiny(kind).float()
        x = model.inputs(1).float()
        maps = [
            ask(model, x, lambda out, e=e: e * out[:, 1], "witness", presence=0.0).relevance
            for e in (1.0, 1e-7)
        ]
        close(maps[1], maps[0], 1e-4)


def test_values_that_a_mask_hides_say_nothing() -> None:
    """A causal model whose rows are averaged: a row hears nothing of the tokens behind it."""
    model, inputs = decoder()
    recording = whyformer.Explainer(model, output=lambda out: out.logits.mean(1)).record(inputs)
    (start,) = recording._resolve(1).starts
    question = recording._question(PRESETS["stable"], start)
    gradients, rows = question.gradients(table=GRADIENTS["libra"]), question.rows.unsqueeze(1)
    heard, said = torch.zeros_like(rows), torch.zeros_like(rows)
    for a, g in reversed(list(zip(question.attention, gradients, strict=True))):
        assert bool(((a == 0) & (g > 0)).any())
        better = (a * (g - (a * g).sum(-1, keepdim=True) / 2)).mean(1)
        pros, cons = rows @ better.clamp(min=0), rows @ (-better).clamp(min=0)
        agreement = (pros - cons).abs() / (pros + cons)
        heard = heard + heard @ a.mean(1) / 2 + pros - agreement * cons
        said = said + rows @ torch.where(a > 0, g.clamp(min=0), 0.0).mean(1)
    root = (heard.sign() * (heard.abs() * said).sqrt()).squeeze(1)
    root = root - root.amin(1, keepdim=True).clamp(min=0)
    found = recording.explain(1, "witness", presence=0.0).relevance
    close(found, root / root.abs().sum(1, keepdim=True), 1e-9)


def test_rows_that_disagree_about_a_token_take_little_from_it() -> None:
    """Half say 1 for it and half say 1 against it: what is said for it stays."""
    net, size = torch.tensor([0.0, 1.0, -1.0, 0.5]), torch.ones(4)
    close(agreed(net, size), torch.tensor([0.5, 1.0, -1.0, 0.75 - 0.25 * 0.5]), 1e-7)
    close(agreed(torch.zeros(1), torch.zeros(1)), torch.zeros(1), 0)


def test_what_all_tokens_have_in_common_is_no_evidence() -> None:
    """A token that is no content does not count, and rounding errors are no differences."""
    content = torch.tensor([[True, True, False, True]])
    for sign in (1, -1):
        shared = sign * torch.tensor([[0.3, 0.5, 0.0, 0.2]])
        rest = sign * torch.tensor([[0.1, 0.3, 0.0, 0.0]])
        close(apart(shared, content), rest / torch.tensor([0.3, 0.5, 0.2]).std(correction=0), 1e-5)
    both = torch.tensor([[-0.3, 0.5, 0.0, 0.2]])
    close(apart(both, content), both / both[content].std(correction=0), 1e-6)
    third = torch.tensor([[1 / 3, 1 / 3 + 1e-7, 0.0, 1 / 3]])
    assert not apart(third, content).any()


def test_a_single_token_keeps_its_word() -> None:
    """Nothing tells it from others, and what is heard of it is all there is."""
    model, words = Bare(), []
    for seed in range(6):
        x = torch.randn(1, 1, 6, generator=torch.Generator().manual_seed(seed)).double()
        word, own = (
            float(ask(model, x, 1, "witness", presence=presence).relevance) for presence in (0, 1e9)
        )
        both = ask(model, x, 1, "witness").relevance
        close(both, torch.tensor([[1.0 if word + own * 3 / 4 > 0 else -1.0]]).double(), 1e-9)
        words.append(word)
    assert 1.0 in words


def test_two_tokens_keep_their_distance() -> None:
    """Their spread would leave which one is ahead, and no more: their shares are added instead."""
    content = torch.tensor([[True, True]])
    close(apart(torch.tensor([[0.51, 0.49]]), content), torch.tensor([[2.0, 0.0]]), 1e-4)
    model = Bare()
    for seed in range(4):
        x = torch.randn(1, 2, 6, generator=torch.Generator().manual_seed(seed)).double()
        word, own, both, much = (
            ask(model, x, 1, "witness", presence=presence).relevance
            for presence in (0, 1e12, 3 / 4, 3)
        )
        for presence, found in ((3 / 4, both), (3, much)):
            expected = word + presence * own
            close(found, expected / expected.abs().sum(1, keepdim=True), 1e-9)


def test_a_map_that_speaks_against_its_target_says_so() -> None:
    assert remark(torch.tensor([[0.7, -0.3], [0.5, 0.5]])) == []
    (alone,) = remark(torch.tensor([[-0.7, 0.3]]))
    assert alone.startswith("more speaks against the target than for it: witness orders that less")
    (some,) = remark(torch.tensor([[-0.7, 0.3], [0.5, 0.5]]))
    assert "in 1 of 2 maps" in some


def test_the_note_stands_in_the_answer() -> None:
    """Asked about the class that a model of random weights likes least; not for other methods."""
    model = Tiny("image")
    explainer = whyformer.Explainer(model)
    found = [explainer(model.inputs(1), target, "witness") for target in range(3)]
    against = [float(explanation.relevance.sum()) < 0 for explanation in found]
    assert set(against) == {True, False}
    for explanation, expected in zip(found, against, strict=True):
        assert any("against the target" in note for note in explanation.notes) == expected
    other = explainer(model.inputs(1), against.index(True), "fullgrad")
    assert not any("witness" in note for note in other.notes)


@pytest.mark.parametrize("faint", [1e-14, 1e-20])
def test_evidence_against_does_not_underflow(faint: float) -> None:
    net, size = torch.tensor([-1.0, 0.0]) * faint, torch.ones(2) * faint
    close(agreed(net, size) / faint, torch.tensor([-1.0, 0.5]), 1e-6)


def test_rows_of_both_signs() -> None:
    """A caller's own weights: what a row with a minus says for a token counts against it."""
    model = Tiny("mean")
    rows = torch.tensor([2.0, -1.0, 0.0]).double()
    explainer = whyformer.Explainer(model, pooling=lambda content: content * rows)
    found = explainer(model.inputs(2), 1, "witness").relevance
    assert bool(found.isfinite().all())
    assert bool((found.abs().max(1).values < 0.95).all())


def test_tokens_behind_the_question_change_nothing() -> None:
    """A causal model, asked about its third position: the others might as well not be there."""
    model, inputs = decoder()
    cut = {key: value[:, :3] for key, value in inputs.items()}
    whole = whyformer.Explainer(model)(inputs, (2, 1), "witness").relevance
    alone = whyformer.Explainer(model)(cut, (2, 1), "witness").relevance
    close(whole[:, :3], alone, 1e-8)
    assert not whole[:, 3:].any()


def test_attention_without_skip_connections_is_refused() -> None:
    class Bald(Bare):
        def forward(self, x: Tensor) -> Tensor:
            for qkv in self.qkv:
                q, k, v = qkv(x).chunk(3, -1)
                x = (q @ k.mT).softmax(-1) @ v
            return self.head(x[:, 0, :3])

    with pytest.raises(whyformer.ModelError, match="skip connections"):
        ask(Bald(), features(), 1, "witness")


@pytest.mark.parametrize("option", ["hearsay", "expected", "presence"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), None, "a", True])
def test_constants_are_numbers_of_at_least_nothing(option: str, value: Any) -> None:
    with pytest.raises(
        whyformer.InputError, match=f"{option} is .*; expected a number of at least 0"
    ):
        ask(Bare(), features(), 1, "witness", **{option: value})


@pytest.mark.parametrize("value", [3, None])
def test_a_gradient_is_named_or_a_table(value: Any) -> None:
    with pytest.raises(whyformer.InputError, match=r"gradient is .*; expected the name of a table"):
        ask(Bare(), features(), 1, "witness", gradient=value)
