"""Where each of the methods that came after the paper fails."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import whyformer
from bare import Bare, features
from contenders import ask, decoder
from test_tiny_transformer import Tiny
from zoo import Block


@pytest.mark.parametrize("method", ["tam", "bt_head", "bt_token"])
def test_a_last_block_without_values_hides_everything(method: str) -> None:
    """Their weight is the last map's gradient: without one, what lower blocks did is lost."""
    model, x = Bare().without_values(1), features()
    found = ask(model, x, 1, method)
    assert not found.relevance.any()
    assert any("the map is zero" in note for note in found.notes)
    assert ask(model, x, 1, "generic_attention").relevance[0, 1:].any()


@pytest.mark.parametrize("method", ["bt_token", "tokentm", "alti", "globenc"])
def test_lengths_count_what_the_head_does_not_read(method: str) -> None:
    """Large values in features that nobody reads change the map, though not the model."""
    model, x = Bare(blocks=1), features()
    maps, logits = [], []
    for factor in (1.0, 50.0):
        with torch.no_grad():
            model.out[0].weight[3:] *= factor
        logits.append(model(x))
        maps.append([ask(model, x, 1, name).relevance for name in (method, "generic_attention")])
    assert torch.allclose(logits[0], logits[1])
    assert torch.allclose(maps[0][1], maps[1][1])
    first, second = (m[0] / m[0].sum() for m in maps)
    assert not torch.allclose(first, second, rtol=0.05)


def test_legrad_counts_tokens_that_nobody_attends_to() -> None:
    """A gradient says what attention would do, not what it does."""
    hidden = torch.tensor([0.0, 0.0, -60.0, 0.0], dtype=torch.float64)
    model, x = Bare(bias=hidden), features()
    plain = [ask(model, x, target, "generic_attention").relevance[0] for target in range(3)]
    assert max(float(row[2] / row[1:].sum()) for row in plain) < 1e-12
    found = [ask(model, x, target, "legrad").relevance[0] for target in range(3)]
    assert max(float(row[2] / row[1:].sum()) for row in found) > 0.1


def test_iia_depends_on_where_nothing_is() -> None:
    """The same model on shifted numbers: an interpolated input is another one."""
    model, x = Bare(), features()
    before = [ask(model, x, 1, name).relevance for name in ("iia", "generic_attention")]
    model.offset = -3.0
    after = [ask(model, x + 3, 1, name).relevance for name in ("iia", "generic_attention")]
    assert torch.allclose(before[1], after[1])
    assert not torch.allclose(before[0][:, 1:], after[0][:, 1:], rtol=0.05)


def test_attcat_hears_queries_that_come_later() -> None:
    """Later words change why an earlier one was written; ``fullgrad`` does not hear them."""
    model, inputs = decoder()
    cut = {key: value[:, :5] for key, value in inputs.items()}
    for method, same in (("attcat", False), ("fullgrad", True)):
        whole = ask(model, inputs, (4, 17), method).relevance[:, :5]
        alone = ask(model, cut, (4, 17), method).relevance
        assert torch.allclose(whole, alone, rtol=1e-6, atol=1e-12) is same


def test_grad_sam_has_no_sign() -> None:
    """What speaks for y is what speaks against -y; of both it shows only positive parts."""
    model, x = Bare(), features()
    for method, signed in (("grad_sam", False), ("gradient_x_input", True)):
        for_it = ask(model, x, 1, method).relevance
        against = ask(model, x, lambda y: -y[:, 1], method).relevance
        assert for_it.any()
        assert against.any()
        assert torch.allclose(for_it, -against) is signed
        assert signed or bool((for_it >= 0).all() and (against >= 0).all())


@pytest.mark.parametrize("method", ["attnlrp", "cp_lrp"])
def test_these_tables_do_not_add_up(method: str) -> None:
    """Without any bias ``libra`` sums to the logit; a GELU or a softmax breaks the others."""

    class Unbiased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.block, self.head = Block(16, 2, "matmul"), nn.Linear(16, 3)
            for name, parameter in self.named_parameters():
                nn.init.zeros_(parameter) if name.endswith("bias") else None
            self.double().eval()

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.block(x)[:, 0])

    model = Unbiased()
    x = torch.randn(1, 4, 16, dtype=torch.float64)
    logit = float(model(x).detach()[0, 1])
    assert float(ask(model, x, 1, "gradient_x_input").relevance.sum()) == pytest.approx(logit)
    assert float(ask(model, x, 1, method).relevance.sum()) != pytest.approx(logit, rel=1e-2)


def test_dave_puts_relevance_where_the_model_does_not_look() -> None:
    """Mirrored copies are right for models that do not mind; this one reads the left half."""

    class Left(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.tiny = Tiny("image")

        def forward(self, x: Tensor) -> Tensor:
            shown = torch.zeros_like(x)
            shown[..., :2] = 1
            return self.tiny(x * shown)

    model = Left()
    x = model.tiny.inputs(1)
    plain = ask(model, x, 1, "gradient_x_input").input_relevance
    assert plain[..., :2].any()
    assert not plain[..., 2:].any()
    moved = ask(model, x, 1, "dave", shift=0).input_relevance
    assert float(moved[..., 2:].abs().sum()) > 0.2 * float(moved.abs().sum())


@pytest.mark.parametrize("method", ["alti", "globenc"])
def test_decompositions_know_no_class(method: str) -> None:
    model = Tiny("image")
    recording = whyformer.Explainer(model).record(model.inputs(1))
    with pytest.warns(UserWarning, match="class-agnostic"):
        found = [recording.explain(target, method).relevance for target in range(3)]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
