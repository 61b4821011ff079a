"""What methods read of a recorded graph beyond maps: values as vectors, streams, changed steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer
from whyformer.engine import PRESETS
from whyformer.methods.question import Question
from whyformer.methods.transformed import transformed

WIDTH, HEADS, SIZE = 6, 2, 3


def matmul(a: Tensor, v: Tensor) -> Tensor:
    return (a @ v).transpose(1, 2)


def folded(a: Tensor, v: Tensor) -> Tensor:
    mixed = torch.bmm(a.flatten(0, 1), v.flatten(0, 1))
    return mixed.unflatten(0, (-1, HEADS)).transpose(1, 2)


def turned(a: Tensor, v: Tensor) -> Tensor:
    return (v.mT @ a.mT).permute(0, 3, 1, 2)


def queries_first(a: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhqk,bkhd->bqhd", a, v.transpose(1, 2))


def values_first(a: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhkd,bhqk->bqhd", v, a)


SPELLINGS = (matmul, folded, turned, queries_first, values_first)
BEHIND: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda x: x,
    "a gate": lambda x: x * x.sigmoid(),
    "a norm": lambda x: nn.functional.layer_norm(x, (WIDTH,)),
}


class Attends(nn.Module):
    """Two blocks of attention, in any spelling; ``in_place`` adds them so."""

    def __init__(self, mix: Any = matmul, behind: str = "nothing", in_place: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.mlp = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, 3)
        self.mix, self.behind, self.in_place = mix, BEHIND[behind], in_place
        self.double().eval()

    def values(self, x: Tensor, block: int) -> tuple[Tensor, Tensor]:
        parts = self.qkv[block](x).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for t in parts)
        return (q @ k.mT).softmax(-1), v

    def forward(self, x: Tensor) -> Tensor:
        x = x.tanh()
        for block in range(2):
            mixed = self.mix(*self.values(x, block)).flatten(2)
            branch = self.behind(self.out[block](mixed))
            if self.in_place:
                x += branch
                x += self.mlp[block](x).tanh()
            else:
                x = x + branch
                x = x + self.mlp[block](x).tanh()
        return self.head(x[:, 0])


def features() -> Tensor:
    torch.manual_seed(2)
    return torch.randn(2, 5, WIDTH, dtype=torch.float64)


def question_of(model: nn.Module, x: Tensor) -> tuple[Question, whyformer.Recording]:
    recording = whyformer.Explainer(model).record(x)
    return recording._question(PRESETS["stable"], recording._resolve(1).starts[0]), recording


@pytest.mark.parametrize("mix", SPELLINGS)
def test_values_as_vectors_in_every_spelling(mix: Any) -> None:
    """v W_O of every head and token, the streams around them, and that they add up."""
    model, x = Attends(mix), features()
    question, _ = question_of(model, x)
    first = transformed(question, "test")[0]
    with torch.no_grad():
        stream = x.tanh()
        _, v = model.values(stream, 0)
        for h in range(HEADS):
            weight = model.out[0].weight[:, h * SIZE : (h + 1) * SIZE]
            assert torch.allclose(first.values[:, h], v[:, h] @ weight.T)
        assert torch.allclose(first.stream, stream)
        given = torch.stack([vectors.sum(1) for vectors in first.vectors()], 1)
        assert torch.allclose(given + model.out[0].bias, first.out)
    assert first.norms == ()


@pytest.mark.parametrize("behind", ["a gate", "a norm"])
@pytest.mark.parametrize("method", ["alti", "globenc", "bt_token", "tokentm"])
def test_values_that_pass_more_than_a_matrix_are_refused(behind: str, method: str) -> None:
    model = Attends(behind=behind)
    with pytest.raises(whyformer.ModelError, match="reach the stream by one matrix"):
        whyformer.Explainer(model)(features(), method=method)


def test_an_equation_without_single_axes_is_refused() -> None:
    """A sum over the heads inside the einsum leaves no head for the values."""

    def all_heads(a: Tensor, v: Tensor) -> Tensor:
        return torch.einsum("bhqk,bhkd->bqd", a, v).repeat(1, 1, HEADS).unsqueeze(2)

    with pytest.raises(whyformer.ModelError, match="bhqk,bhkd->bqd"):
        whyformer.Explainer(Attends(all_heads))(features(), method="alti")


@pytest.mark.parametrize("method", ["fullgrad", "attcat", "legrad", "alti", "rollout", "tokentm"])
def test_sums_in_place_are_sums(method: str) -> None:
    """x += y swaps what the caller's tensor holds; streams are the values that they were."""
    x = features()
    target = 1 if whyformer.methods()[method].class_specific else None
    plain, in_place = (
        whyformer.Explainer(Attends(in_place=there))(x, target, method).relevance
        for there in (False, True)
    )
    assert torch.allclose(plain, in_place)


def test_blocks_of_sums_in_place_are_where_they_were() -> None:
    _, recording = question_of(Attends(in_place=True), features())
    blocks = recording.trace.seen.blocks
    assert len(blocks) == 2
    for block in blocks:
        assert torch.equal(block.exit, block.sum.output)
        assert torch.equal(block.entry, block.sum.u)


def test_the_same_question_with_a_step_changed() -> None:
    """Scaling the last attention map is scaling its values."""
    model, x = Attends(), features()
    question, recording = question_of(model, x)
    number = recording.trace.seen.attention[-1].softmax.number
    there = question.at(changed={number: lambda weights: weights / 2})
    assert torch.allclose(there.attention[-1], question.attention[-1] / 2)
    assert torch.equal(there.attention[0], question.attention[0])
    with torch.no_grad():
        model.qkv[1].weight[2 * WIDTH :] /= 2
        model.qkv[1].bias[2 * WIDTH :] /= 2
    assert torch.allclose(there.trace.output, model(x))
    assert not torch.allclose(recording.logits, model(x))


def test_the_same_question_at_another_input() -> None:
    model, x = Attends(), features()
    question, _ = question_of(model, x)
    there = question.at(question.input / 2)
    assert torch.allclose(there.trace.output, model(x / 2))
    expected, _ = question_of(model, x / 2)
    for found, slope in zip(there.gradients(), expected.gradients(), strict=True):
        assert torch.allclose(found, slope)


def test_inputs_that_were_changed_since_are_refused() -> None:
    x = features()
    question, recording = question_of(Attends(), x)
    x += 1
    for ask in (lambda: question.at(), lambda: recording.explain(1, "legrad")):
        with pytest.raises(whyformer.InputError, match="changed in place"):
            ask()


def test_legrad_refuses_streams_that_its_head_cannot_read() -> None:
    class Narrowed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attends, self.between = Attends(), nn.Linear(WIDTH, WIDTH).double()

        def forward(self, x: Tensor) -> Tensor:
            one = self.attends
            for block in range(2):
                x = self.between(x)
                x = x + one.out[block](matmul(*one.values(x, block)).flatten(2))
            return one.head(x[:, 0])

    with pytest.raises(whyformer.ModelError, match="legrad lets the head read"):
        whyformer.Explainer(Narrowed())(features(), 1, "legrad")


def test_iia_refuses_a_model_that_takes_other_steps_at_other_inputs() -> None:
    class Restless(Attends):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x * 2 if x.detach().abs().max() < 1 else x)

    x = features()
    assert x.abs().max() > 1 > x.abs().max() / 3
    with pytest.raises(whyformer.ModelError, match="other steps at other inputs"):
        whyformer.Explainer(Restless())(x, 1, "iia", progress=False)


def test_a_token_to_which_none_gives_anything_keeps_what_it_was() -> None:
    """ALTI's rows may all be zero; divided by their sums they would be no numbers."""
    from whyformer.methods import registry
    from whyformer.methods.decompositions import multiplied
    from zoo import CASES, pixels

    def nothing(question: Question) -> Any:
        return multiplied(question, "nothing", lambda block: block.out.new_zeros(2, 17, 17))

    model, _ = next(case for case in CASES if case.name == "ViT").make()
    try:
        whyformer.register("nothing", "of which nothing is given", class_specific=False)(nothing)
        found = whyformer.Explainer(model)(pixels(), method="nothing").relevance
    finally:
        registry._METHODS.pop("nothing")
    assert found.isfinite().all()
    assert not found[:, 1:].any()
