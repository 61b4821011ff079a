"""Methods that read no maps keep of the forward only what gradients need."""

from __future__ import annotations

import gc
import warnings

import pytest
import torch
from torch import Tensor, nn

import whyformer
from whyformer.engine.rules import GRADIENTS
from whyformer.recording import Recording

LENGTH, WIDTH = 5, 8


class Scaled(nn.Module):
    """A Linear layer, a curve, and between them so many scalings and means."""

    def __init__(self, times: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.register_buffer("factors", torch.rand(LENGTH, WIDTH) + 0.5)
        self.times = times

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.first(x))
        for _ in range(self.times):
            y = -(y * self.factors) / 0.7
            y = y + y.mean(-1, keepdim=True) + y.sum(1, keepdim=True)
        return self.last(torch.tanh(y)).mean(1)


def bytes_alive() -> int:
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = [found for found in gc.get_objects() if isinstance(found, Tensor)]
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(sizes.values())


def bytes_kept(times: int, maps: bool) -> int:
    explainer = whyformer.Explainer(Scaled(times).eval())
    x = torch.randn(64, LENGTH, WIDTH)
    before = bytes_alive()
    recording = Recording(explainer, x, maps=maps)
    kept = bytes_alive() - before
    assert recording.logits.shape == (64, 3)
    return kept


def test_scalings_and_means_keep_nothing() -> None:
    activation = 64 * LENGTH * WIDTH * 4
    assert bytes_kept(4, maps=False) - bytes_kept(1, maps=False) < activation
    assert bytes_kept(4, maps=True) - bytes_kept(1, maps=True) > 3 * activation


@pytest.mark.parametrize("times", [1, 3])
def test_the_gradient_is_autograds(times: int) -> None:
    model = Scaled(times).double().eval()
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(model(x)[:, 1].sum(), x)
    expected = (x * slope).sum(-1).detach()
    found = whyformer.Explainer(model)(
        x.detach(), target=1, method="gradient_x_input", gradient="gradient"
    )
    assert torch.allclose(found.relevance, expected, atol=1e-12)


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_what_is_not_kept_is_not_missed(gradient: str) -> None:
    """A recording that keeps all, for any method, answers the same."""
    explainer = whyformer.Explainer(Scaled(2).double().eval())
    x = torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)
    asked = {"method": "gradient_x_input", "gradient": gradient}
    lean, whole = explainer(x, target=1, **asked), explainer.record(x).explain(1, **asked)
    assert torch.equal(lean.relevance, whole.relevance)
