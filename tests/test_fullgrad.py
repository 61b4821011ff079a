"""FullGrad of 2019: terms of the input and of every bias, and what LayerNorm does to them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import whyformer
from probe import close, draw
from test_completeness import MODELS, noised, one_logit_each
from test_named_methods import same_alone_and_in_a_batch

WIDTH, HIDDEN, CLASSES = 4, 6, 3


class Network(nn.Module):
    """One head of attention and a ReLU, each with a skip connection; the mean of all tokens.

    ``biases`` replace those of its maps, (batch, tokens, width) each: leaves for a gradient.
    """

    def __init__(self, norm: bool = False, attention: bool = False) -> None:
        super().__init__()
        maps = {"q": WIDTH, "k": WIDTH, "v": WIDTH, "out": WIDTH, "up": HIDDEN}
        self.maps = nn.ModuleDict({name: nn.Linear(WIDTH, size) for name, size in maps.items()})
        self.maps["down"] = nn.Linear(HIDDEN, WIDTH)
        self.norm = nn.LayerNorm(WIDTH) if norm else nn.Identity()
        self.head = nn.Linear(WIDTH, CLASSES)
        self.attention = attention
        for parameter in self.parameters():
            nn.init.normal_(parameter)
        self.double()
        self.biases: dict[str, Tensor] = {}

    def by(self, name: str, x: Tensor) -> Tensor:
        layer = self.maps[name]
        if name in self.biases:
            return x @ layer.weight.T + self.biases[name]
        return layer(x)

    def forward(self, x: Tensor) -> Tensor:
        if self.attention:
            scores = self.by("q", x) @ self.by("k", x).transpose(1, 2)
            x = x + self.by("out", (scores * 0.3).softmax(-1) @ self.by("v", x))
        x = self.norm(x + self.by("down", self.by("up", x).relu()))
        return self.head(x.mean(1))


def by_hand(model: Network, x: Tensor, target: int) -> Tensor:
    """|x g| and every |b g| at its token; the head's bias belongs to all of them."""
    x = x.clone().requires_grad_()
    used = list(model.maps) if model.attention else ["up", "down"]
    model.biases = {
        name: model.maps[name].bias.expand(*x.shape[:2], -1).detach().clone().requires_grad_()
        for name in used
    }
    leaves = [x, *model.biases.values()]
    slopes = torch.autograd.grad(model(x)[:, target].sum(), leaves)
    model.biases = {}
    terms = [(leaf * g).abs().sum(-1).detach() for leaf, g in zip(leaves, slopes, strict=True)]
    return torch.stack(terms).sum(0) + model.head.bias[target].detach().abs() / x.shape[1]


@pytest.mark.parametrize("attention", [False, True])
def test_every_term_stands_at_its_token(attention: bool) -> None:
    model, x = Network(attention=attention), draw(2, 5, WIDTH)
    found = whyformer.Explainer(model)(x, 1, "fullgrad_2019").relevance
    close(found, by_hand(model, x, 1))


def test_layer_norm_breaks_completeness_and_libra_mends_it() -> None:
    """A network of ReLUs is complete under the plain gradient, as the paper proves."""

    def missing(norm: bool, gradient: str) -> float:
        model, x = Network(norm=norm), draw(2, 5, WIDTH)
        found = whyformer.Explainer(model)(x, 1, "fullgrad_2019", gradient=gradient, signed=True)
        return float((found.relevance.sum(-1) - found.logits[:, 1]).abs().max())

    assert missing(norm=False, gradient="gradient") < 1e-9
    assert missing(norm=True, gradient="gradient") > 0.1
    assert missing(norm=True, gradient="libra") < 1e-9


@pytest.mark.parametrize("name", MODELS)
def test_signed_terms_sum_to_the_logit_under_libra(name: str) -> None:
    """Each sample's; but for the class token and its position, which enter beside the input."""
    model, inputs = MODELS[name]()
    recording = whyformer.Explainer(noised(model)).record(inputs)
    seed = one_logit_each(recording.logits)
    logits = (recording.logits * seed).flatten(1).sum(1)
    last = recording.logits.shape[1] - 1
    target = [1, 2] if recording.logits.ndim == 2 else [(last, 1), (last, 2)]
    if name == "ViT":
        trace, table = recording.trace, whyformer.engine.GRADIENTS["libra"]
        entry = trace.seen.blocks[0].entry
        (slope,) = trace.backward(table, [(trace.output, seed)], [entry])
        logits -= (entry.detach()[:, 0] * slope[:, 0]).sum(-1)
    for gradient, complete in (("libra", True), ("gradient", False)):
        found = recording.explain(target, "fullgrad_2019", gradient=gradient, signed=True)
        total = torch.stack([part.relevance.sum(-1) for part in found.parts]).sum(0)
        assert torch.allclose(total, logits, atol=1e-9) == complete


@pytest.mark.parametrize("name", ["ViT", "BERT", "by hand, mean-pooled", "nn.TransformerEncoder"])
def test_a_sample_gets_the_same_map_alone_and_in_a_batch(name: str) -> None:
    same_alone_and_in_a_batch(name, "fullgrad_2019")


def test_what_is_read_at_the_pixels_is_read_at_the_patches() -> None:
    model, inputs = MODELS["ViT"]()
    found = whyformer.Explainer(noised(model))(inputs, 1, "fullgrad_2019")
    patches = found.input_relevance.unfold(1, 8, 8).unfold(2, 8, 8).sum((-1, -2)).flatten(1)
    close(found.relevance[:, 1:], patches)
    assert (found.relevance[:, 0] > 0).all()
