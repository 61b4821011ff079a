"""Captum's metrics, tunnel and pictures, and Quantus's metrics, on whyformer's answers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import whyformer
from test_sacred import same, state
from zoo import CASES

pytestmark = pytest.mark.interop

CASE = {case.name: case for case in CASES}


@pytest.fixture(scope="module")
def vit() -> tuple[Any, Tensor]:
    return CASE["ViT"].make()


def attribution(model: Any, method: str = "transformer_attribution", **options: Any) -> Any:
    from whyformer.interop.captum import WhyformerAttribution

    return WhyformerAttribution(model, method, **options)


@pytest.mark.parametrize("method", ["transformer_attribution", "rollout", "lrp", "saliency"])
@pytest.mark.filterwarnings("error:rollout is class-agnostic")
def test_attributions_have_the_shape_of_the_pixels_and_keep_the_sum(
    vit: tuple[Any, Tensor], method: str
) -> None:
    model, image = vit
    found = attribution(model, method).attribute(image, target=torch.tensor([1, 3]))
    asked = None if method == "rollout" else torch.tensor([1, 3])
    direct = whyformer.Explainer(model)(image, asked, method)
    assert found.shape == image.shape
    assert torch.allclose(found.flatten(1).sum(1), direct.relevance[:, 1:].sum(1), atol=1e-5)
    patches = found.sum(1).unfold(1, 8, 8).unfold(2, 8, 8).sum((-1, -2)).flatten(1)
    assert torch.allclose(patches, direct.relevance[:, 1:], atol=1e-5)
    within = found.unfold(2, 8, 8).unfold(3, 8, 8).flatten(-2).std(-1)
    assert bool((within > 1e-7).any()) == (direct.input_relevance is not None)


def test_an_uneven_grid_keeps_the_sum() -> None:
    from whyformer.interop.shapes import spread

    patches = torch.rand(2, 3, 4, dtype=torch.float64)
    found = spread(patches, (10, 9))
    assert found.shape == (2, 10, 9)
    assert torch.allclose(found.sum((1, 2)), patches.sum((1, 2)))
    assert found[0, 0, 0] == pytest.approx(float(patches[0, 0, 0]) / (3 * 2), rel=0.51)


@pytest.mark.parametrize("name", ["BERT", "nn.TransformerEncoder"])
def test_token_ids_with_a_mask(name: str) -> None:
    model, inputs = CASE[name].make()
    found = attribution(model).attribute(
        inputs["input_ids"], target=1, additional_forward_args=inputs["attention_mask"]
    )
    assert torch.allclose(found, whyformer.Explainer(model).attribute(inputs, 1))
    assert (found[1, -3:] == 0).all()


def test_targets_as_captum_gives_them(vit: tuple[Any, Tensor]) -> None:
    model, image = vit
    asked = attribution(model)
    each = asked.attribute(image, target=[1, 3])
    assert torch.allclose(each[1:], asked.attribute(image[1:], target=[3]), atol=1e-6)
    assert torch.equal(asked.attribute(image, target=torch.tensor(3))[1], each[1])
    (found,) = asked.attribute((image,), target=[1, 3])
    assert torch.equal(found, each)
    with pytest.raises(whyformer.InputError, match="2 inputs were given; expected one tensor"):
        asked.attribute((image, image), target=1)


def test_captums_metrics(vit: tuple[Any, Tensor]) -> None:
    from captum.metrics import infidelity, sensitivity_max

    model, image = vit
    before = state(model)
    torch.manual_seed(0)
    asked = attribution(model)
    small = sensitivity_max(
        asked.attribute, image, perturb_radius=0.001, n_perturb_samples=3, target=[1, 3]
    )
    large = sensitivity_max(
        asked.attribute, image, perturb_radius=0.5, n_perturb_samples=3, target=[1, 3]
    )
    assert small.shape == (2,)
    assert (small > 0).all()
    assert (small < large).all()

    def perturb(inputs: Tensor) -> tuple[Tensor, Tensor]:
        noise = torch.randn_like(inputs) * 0.05
        return noise, inputs - noise

    def measured(method: str) -> float:
        torch.manual_seed(0)
        found = attribution(model, method).attribute(image, target=1)
        scores = infidelity(
            asked.forward_func, perturb, image, found, target=1, n_perturb_samples=50
        )
        return float(scores.mean())

    assert 0 < measured("input_x_gradient") < np.inf
    assert measured("transformer_attribution") != measured("generic_attention")
    assert same(state(model), before)


def test_inside_a_noise_tunnel(vit: tuple[Any, Tensor]) -> None:
    from captum.attr import NoiseTunnel

    model, image = vit
    asked = attribution(model)
    sharp = asked.attribute(image, target=1)
    tunnel = NoiseTunnel(asked)
    still = tunnel.attribute(image, nt_samples=2, stdevs=0.0, target=1)
    assert torch.allclose(still, sharp, atol=1e-6)
    smooth = tunnel.attribute(image, nt_samples=4, stdevs=0.3, target=1)
    assert smooth.shape == image.shape
    assert not torch.allclose(smooth, sharp)


def test_captums_pictures(vit: tuple[Any, Tensor]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from captum.attr import visualization

    model, image = vit
    found = attribution(model).attribute(image, target=1)[0].permute(1, 2, 0).numpy()
    picture = image[0].permute(1, 2, 0).sigmoid().numpy()
    _, axes = visualization.visualize_image_attr(
        found, picture, "blended_heat_map", "positive", use_pyplot=False
    )
    assert len(axes.images) == 2
    drawn = axes.images[1].get_array()
    assert drawn.shape == (32, 32)
    assert float(drawn.max()) > 0


@pytest.fixture(scope="module")
def batch(vit: tuple[Any, Tensor]) -> tuple[Any, np.ndarray, np.ndarray]:
    from whyformer.interop.quantus import Logits

    model, image = vit
    return Logits(model).eval(), image.numpy(), np.array([1, 3])


def test_quantus_gets_maps_of_its_shape(batch: Any, vit: tuple[Any, Tensor]) -> None:
    from whyformer.interop.quantus import explain_func

    model, images, targets = batch
    found = explain_func(model, images, targets, method="generic_attention", device="cpu")
    assert found.shape == (2, 1, 32, 32)
    direct = whyformer.Explainer(vit[0])(vit[1], torch.tensor([1, 3]), "generic_attention")
    patches = found.reshape(2, 4, 8, 4, 8).sum((2, 4)).reshape(2, 16)
    assert np.allclose(patches, direct.relevance[:, 1:].numpy(), atol=1e-6)


@pytest.mark.parametrize("method", ["transformer_attribution", "input_x_gradient"])
def test_quantuss_metrics(batch: Any, method: str) -> None:
    import quantus

    from whyformer.interop.quantus import explain_func

    model, images, targets = batch
    before = state(model)
    quiet = {"disable_warnings": True, "display_progressbar": False}
    metrics = {
        "flipping": quantus.PixelFlipping(features_in_step=64, perturb_baseline="black", **quiet),
        "faithfulness": quantus.FaithfulnessCorrelation(
            nr_runs=10, subset_size=64, return_aggregate=False, **quiet
        ),
        "sensitivity": quantus.MaxSensitivity(nr_samples=2, lower_bound=0.05, **quiet),
        "sparseness": quantus.Sparseness(**quiet),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = {
            name: metric(
                model=model, x_batch=images, y_batch=targets, device="cpu",
                explain_func=explain_func, explain_func_kwargs={"method": method},
            )
            for name, metric in metrics.items()
        }  # fmt: skip
    for name, values in scores.items():
        assert len(values) == 2, name
        assert np.isfinite(np.array(values, dtype=float)).all(), (name, values)
    assert min(scores["sensitivity"]) > 0
    assert 0 < min(scores["sparseness"]) < max(scores["sparseness"]) < 1
    assert same(state(model), before)


def test_quantus_takes_features() -> None:
    from whyformer.interop.quantus import explain_func

    model, inputs = CASE["nn.TransformerEncoder"].make()

    class Features(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: Tensor) -> Tensor:
            return self.inner.head(self.inner.encoder(x)[:, 0])

    x = model.words(inputs["input_ids"]).detach().numpy()
    found = explain_func(Features().eval(), x, np.array([0, 1]))
    assert found.shape == x.shape
    assert np.isfinite(found).all()
