"""One table of models, one test that walks it: no model needs code of its own."""

from __future__ import annotations

import pytest
import torch

import whyformer
from zoo import CASES, VISION_CASES, Case, quick

EVERY = [
    *(pytest.param(case, id=case.name) for case in CASES),
    *(pytest.param(case, id=case.name, marks=pytest.mark.vision) for case in VISION_CASES),
]
MAY_CLAMP_ALL = ("gradcam", "clrp", "sglrp")
CLASS_SPECIFIC = ("transformer_attribution", "generic_attention", "partial_lrp", "lrp")


@pytest.mark.parametrize("case", EVERY)
def test_every_model_is_explained(case: Case) -> None:
    model, inputs = case.make()
    recording = whyformer.Explainer(model).record(inputs)
    batch = recording.logits.shape[0]
    assert recording.tokens.grid == case.grid
    assert recording.tokens.content.shape == (batch, case.tokens)
    assert tuple(recording.rows()[0].nonzero().flatten().tolist()) == case.rows
    for method in whyformer.methods():
        explanation = recording.explain(method=method, **quick(method))
        assert explanation.relevance.shape == (batch, case.tokens)
        assert explanation.relevance.isfinite().all()
        assert explanation.relevance.abs().sum() > 0 or method in MAY_CLAMP_ALL
        if case.grid:
            image = inputs if isinstance(inputs, torch.Tensor) else inputs["pixel_values"]
            size = image.shape[-2:]
            assert explanation.image_map().shape == (batch, *size)
            assert explanation.image_map((50, 70)).shape == (batch, 50, 70)
    assert tuple(sorted(recording.trace.seen.fallbacks)) == case.fallbacks
    assert recording.trace.foreign == []


@pytest.mark.parametrize("case", EVERY)
def test_logits_are_the_models_own(case: Case) -> None:
    model, inputs = case.make()
    with torch.no_grad():
        output = model(**inputs) if isinstance(inputs, dict) else model(inputs)
    own = getattr(output, "logits", output)
    assert torch.allclose(whyformer.Explainer(model).record(inputs).logits, own, atol=1e-5)


@pytest.mark.parametrize("case", EVERY)
def test_relevance_is_conserved_where_it_must_be(case: Case) -> None:
    """Sums and products conserve, so a block's relevance never exceeds the one that started.

    Only Eq. 5 loses relevance, at units without a positive contribution.
    """
    model, inputs = case.make()
    model = model.double()
    if isinstance(inputs, torch.Tensor):
        inputs = inputs.double()
    recording = whyformer.Explainer(model).record(inputs)
    explanation = recording.explain(target=1, preset="paper", keep_blocks=True)
    for relevance in explanation.blocks.relevance:
        total = relevance.sum((1, 2, 3))
        assert (total.abs() <= 1 + 1e-6).all()
    last = explanation.blocks.relevance[-1].sum((1, 2, 3))
    assert (last > 0).all()


@pytest.mark.parametrize("case", EVERY)
@pytest.mark.parametrize("method", CLASS_SPECIFIC)
def test_two_classes_two_maps(case: Case, method: str) -> None:
    model, inputs = case.make()
    recording = whyformer.Explainer(model).record(inputs)
    content = recording.tokens.content
    first, second = (recording.explain(t, method).relevance[content] for t in (0, 1))
    assert (first - second).abs().max() > 1e-3 * first.abs().max()
