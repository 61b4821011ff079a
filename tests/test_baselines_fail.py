"""Where the paper's method, its baselines and its ablations fail."""

from __future__ import annotations

import pytest
import torch

import whyformer
from bare import Bare, features
from contenders import ask
from test_tiny_transformer import Tiny
from whyformer.demo.scenes import draw_scene


@pytest.mark.parametrize("method", ["rollout", "raw_attention", "attention_flow"])
def test_attention_alone_counts_what_says_nothing(method: str) -> None:
    """Without values nothing is read, and the map still shows where attention looks."""
    model, x = Bare().without_values(0).without_values(1), features()
    changed = x.clone()
    changed[:, 1:] += 1
    assert torch.equal(model(x), model(changed))
    assert (ask(model, x, None, method).relevance[0, 1:] > 0).all()
    assert not ask(model, x, 1, "gradient_x_input").relevance[0, 1:].any()


@pytest.mark.parametrize("method", ["rollout", "raw_attention", "attention_flow"])
def test_attention_alone_knows_no_class(method: str) -> None:
    model = Tiny("image")
    recording = whyformer.Explainer(model).record(model.inputs(1))
    with pytest.warns(UserWarning, match="class-agnostic"):
        first, second = (recording.explain(target, method).relevance for target in (0, 1))
    assert torch.equal(first, second)


@pytest.mark.parametrize("method", ["partial_lrp", "gradcam", "ablation_last_block"])
def test_the_last_block_alone_misses_what_came_before(method: str) -> None:
    """All that was read was read in the first block; the last one says nothing of it."""
    model, x = Bare().without_values(1), features()
    changed = x.clone()
    changed[:, 3] += 1
    assert not torch.allclose(model(x), model(changed))
    assert ask(model, x, 1, "generic_attention").relevance[0, 3] > 0
    assert not ask(model, x, 1, method).relevance[0, 1:].any()


def test_the_second_block_alone_misses_all_others() -> None:
    model, x = Bare(blocks=3).without_values(1), features()
    assert ask(model, x, 1, "generic_attention").relevance[0, 1:].any()
    assert not ask(model, x, 1, "ablation_second_block").relevance[0, 1:].any()


@pytest.mark.parametrize("method", ["lrp", "partial_lrp", "ablation_no_gradient"])
def test_relevance_without_a_gradient_hardly_knows_the_class(method: str) -> None:
    """Two digits in one scene, each asked: nearly one map; the paper's method has two."""
    scene = draw_scene(3, 2)
    recording = whyformer.load("demo-vision").record(scene.image)

    def alike(name: str) -> float:
        maps = [recording.explain(str(label), name).relevance[:, 1:] for label in scene.labels]
        return float(torch.corrcoef(torch.cat(maps))[0, 1])

    assert alike(method) > 0.7
    assert alike("transformer_attribution") < 0.5


@pytest.mark.parametrize("method", ["transformer_attribution", "generic_attention", "gradcam"])
def test_positive_parts_cannot_speak_against(method: str) -> None:
    """Asked about -y, the map is not the other's with its sign changed: both are positive."""
    model, x = Bare(), features()
    for_it = ask(model, x, 1, method).relevance
    against = ask(model, x, lambda y: -y[:, 1], method).relevance
    assert (for_it >= 0).all()
    assert (against >= 0).all()
    assert not torch.allclose(for_it, -against)


def test_a_gradient_times_nothing_is_nothing() -> None:
    """A token whose numbers are zero gets nothing, though another value would change the logit."""
    model, x = Bare(), features()
    x[:, 2] = 0
    changed = x.clone()
    changed[:, 2] += 1
    assert not torch.allclose(model(x), model(changed))
    assert not ask(model, x, 1, "gradient_x_input").relevance[0, 2].any()
    found = [ask(model, x, target, "generic_attention").relevance[0, 2] for target in range(3)]
    assert any(value > 0 for value in found)


def test_a_key_that_steers_gets_nothing_under_libra() -> None:
    """What token 3 says is nothing; that it is attended to takes attention from the others."""
    model, x = Bare(blocks=1), features()
    with torch.no_grad():
        model.qkv[0].weight[12:, 5] = 0  # no value reads the last feature
    x[:, 3] = 0
    x[:, 3, 5] = 2
    steered = x.clone()
    steered[:, 3, 5] = -2
    assert not torch.allclose(model(x), model(steered))
    found = {
        name: ask(model, x, 1, "gradient_x_input", gradient=name).relevance[0, 3]
        for name in ("libra", "gradient")
    }
    assert abs(float(found["libra"])) < 1e-12
    assert abs(float(found["gradient"])) > 1e-3


def test_fullgrad_counts_a_token_once_a_block() -> None:
    """A block that changes nothing doubles the map: the sum of streams is not the logit."""
    one, two, x = Bare(blocks=1), Bare().without_values(1), features()
    with torch.no_grad():
        two.load_state_dict(one.state_dict(), strict=False)
        two.out[1].bias.zero_()
    assert torch.allclose(two(x), one(x))
    for method, same in (("fullgrad", False), ("gradient_x_input", True)):
        maps = [ask(model, x, 1, method).relevance for model in (one, two)]
        assert torch.allclose(*maps, rtol=0.05) is same
