"""The methods that came after the paper, each against its formula, and where each fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import contenders
import whyformer
from contenders import ask, decoder
from test_streams import bart, clip, swin
from test_tiny_transformer import Tiny, close
from whyformer.engine import GRADIENTS
from zoo import Encoder, pixels, quick

METHODS = (
    "attnlrp", "cp_lrp", "attcat", "grad_sam", "tam", "bt_head", "bt_token", "iia", "tokentm",
    "legrad", "dave", "alti", "globenc",
)  # fmt: skip
ONE_SEQUENCE = {"tam", "bt_head", "bt_token", "tokentm", "alti", "globenc"}
KINDS = ("image", "sequence", "mean")


# -- formulas

ORACLES: dict[str, tuple[Callable[..., Tensor], dict[str, Any]]] = {
    "attcat": (contenders.attcat, {}),
    "fullgrad": (contenders.fullgrad, {"gradient": "gradient"}),
    "grad_sam": (contenders.grad_sam, {}),
    "tam": (contenders.tam, {"steps": 3}),
    "bt_head": (contenders.bt_head, {"steps": 3, "start": 0}),
    "bt_token": (contenders.bt_token, {"steps": 3, "start": 0}),
    "iia": (contenders.iia, {"steps": 2}),
    "tokentm": (contenders.tokentm, {}),
    "legrad": (contenders.legrad, {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ORACLES)
def test_each_is_its_formula(method: str, kind: str) -> None:
    oracle, options = ORACLES[method]
    model = Tiny(kind)
    x, targets = model.inputs(2), [2, 0]
    found = ask(model, x, targets, method, **options)
    assert not found.notes
    for n, target in enumerate(targets):
        close(found.relevance[n], oracle(model, x[n], target, **options).detach(), 1e-9)


@pytest.mark.parametrize("method", ["tam", "bt_head", "bt_token"])
def test_one_step_is_the_gradient_at_the_input_itself(method: str) -> None:
    model = Tiny("image")
    x, (oracle, options) = model.inputs(1), ORACLES[method]
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    found = ask(model, x, 1, method, **{**options, "steps": 1}).relevance[0]
    assert len(calls) == 1
    close(found, oracle(model, x[0], 1, **{**options, "steps": 1}).detach(), 1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["alti", "globenc"])
def test_decompositions_of_a_pre_norm_model(method: str, kind: str) -> None:
    model = Tiny(kind)
    x = model.inputs(2)
    found = ask(model, x, None, method)
    for n in range(2):
        close(found.relevance[n], contenders.decomposed(model, x[n], method), 1e-9)
        assert float(found.relevance[n].sum()) == pytest.approx(1)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("method", ["alti", "globenc"])
def test_decompositions_count_the_norms_behind_a_block(method: str, batch_first: bool) -> None:
    torch.manual_seed(4)
    model = Encoder(batch_first).double().eval()
    ids = torch.randint(5, 60, (2, 4))
    found = ask(model, {"input_ids": ids}, None, method).relevance
    for n in range(2):
        x = (model.words(ids[n]) + model.places(torch.arange(4))).detach()
        total = torch.eye(4, dtype=torch.float64)
        for layer in model.encoder.layers:
            with torch.no_grad():
                block = contenders.post_norm(layer, x)
            if method == "alti":
                rows = [
                    [contenders.nearness(block.middle[i], t) for t in row]
                    for i, row in enumerate(block.once)
                ]
            else:
                rows = [[contenders.length(t) for t in row] for row in block.twice]
            total, x = contenders.by_rows(rows) @ total, block.out
        close(found[n], total[0], 1e-8)


@pytest.mark.parametrize(("method", "gradient"), [("attnlrp", "attnlrp"), ("cp_lrp", "cp")])
def test_names_of_tables(method: str, gradient: str) -> None:
    model = Tiny("image")
    x = model.inputs(2)
    found = ask(model, x, 1, method)
    expected = ask(model, x, 1, "gradient_x_input", gradient=gradient)
    assert torch.equal(found.input_relevance, expected.input_relevance)
    assert not torch.allclose(
        found.relevance, ask(model, x, 1, "gradient_x_input", gradient="gradient").relevance
    )


def test_fullgrad_is_balanced_by_default() -> None:
    """Its own formula, with x and g of every stream under ``libra``."""
    model = Tiny("sequence")
    recording = whyformer.Explainer(model).record(model.inputs(2))
    seed = torch.zeros_like(recording.logits)
    seed[:, 1] = 1
    entries = [block.entry for block in recording.trace.seen.blocks]
    start = [(recording.trace.output, seed)]
    slopes = recording.trace.backward(GRADIENTS["libra"], start, entries)
    products = [x.detach() * g for x, g in zip(entries, slopes, strict=True)]
    close(recording.explain(1, "fullgrad").relevance, torch.stack(products).sum((0, -1)), 1e-9)


@pytest.mark.parametrize("name", ["libra", "cp", "attnlrp"])
def test_balanced_gradients_are_options(name: str) -> None:
    """The formulas, with G of another backward in the place of the plain one."""
    model = Tiny("image")
    recording = whyformer.Explainer(model).record(model.inputs(2))
    blocks = recording.explain(1, keep_blocks=True).blocks
    seed = torch.zeros_like(recording.logits)
    seed[:, 1] = 1
    of = [attention.weights for attention in recording.trace.seen.attention]
    g = recording.trace.backward(GRADIENTS[name], [(recording.trace.output, seed)], of)
    a, r = blocks.attention, blocks.relevance
    layers = [(g[b] * r[b]).clamp(min=0).mean(1) for b in range(2)]
    weights = g[1][:, :, 0, 1:].mean(-1, keepdim=True)
    expected = {
        "transformer_attribution": torch.stack([contenders.rolled([x[n] for x in layers])[0]
                                                for n in range(2)]),
        "gradcam": (weights * a[1][:, :, 0]).sum(1).clamp(min=0),
        "grad_sam": sum((a[b] * g[b].clamp(min=0)).mean((1, 2)) for b in range(2)) / 2,
    }  # fmt: skip
    for method, row in expected.items():
        close(recording.explain(1, method, gradient=name).relevance, row, 1e-9)
    for method in (*expected, "attcat", "tam", "bt_head", "bt_token", "iia", "tokentm"):
        every, options = [[0, 1, 2]] * 2, quick(method)
        plain = recording.explain(every, method, **options).relevance
        named = recording.explain(every, method, gradient="gradient", **options).relevance
        other = recording.explain(every, method, gradient=name, **options).relevance
        assert torch.equal(plain, named)
        assert not torch.allclose(plain, other, rtol=1e-3)
        with pytest.raises(whyformer.UnknownNameError, match="unknown gradient 'libre'"):
            recording.explain(1, method, gradient="libre")


def test_dave_is_the_mean_over_moved_copies() -> None:
    """Copy by copy, each through ``gradient_x_input``; the largest pixel of each is left out."""
    model = Tiny("image")
    x = model.inputs(2)
    found = ask(model, x, 1, "dave", samples=5, shift=1, spread=0.2, kept=0.9).input_relevance
    total, count = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
    reach = x.amax((1, 2, 3)) - x.amin((1, 2, 3))
    for k in range(5):
        drawn = torch.from_numpy(np.random.default_rng(k).standard_normal(x.shape[1:]))
        copy = x + 0.2 * reach.view(-1, 1, 1, 1) * drawn
        down, right = (int(s) for s in np.random.default_rng([k, 1]).integers(-1, 2, 2))
        copy = copy.flip(-1) if k % 2 else copy
        pixel = ask(model, copy.roll((down, right), (2, 3)), 1, "gradient_x_input").input_relevance
        for n in range(2):
            bound = pixel[n].abs().flatten().sort().values[-2]  # seven of eight pixels
            for i in range(2):
                for j in range(4):
                    value = pixel[n, (i + down) % 2, (j + right) % 4]
                    at = 3 - j if k % 2 else j
                    if value.abs() <= bound:
                        total[n, i, at] += value
                        count[n, i, at] += 1
    close(found, total / count.clamp(min=1), 1e-9)


def test_dave_of_one_copy_without_noise_is_gradient_x_input() -> None:
    model = Tiny("sequence")
    x = model.inputs(2)
    found = ask(model, x, 1, "dave", samples=1, spread=0.0).relevance
    assert torch.equal(found, ask(model, x, 1, "gradient_x_input").relevance)


def test_iia_of_one_step_is_generic_attention() -> None:
    model, image = swin(), pixels().double()
    found = ask(model, image, 1, "iia", steps=1).relevance
    assert torch.equal(found, ask(model, image, 1, "generic_attention").relevance)


# -- shapes of models


@pytest.mark.parametrize("method", METHODS)
def test_a_causal_decoder_and_a_batch_is_its_samples(method: str) -> None:
    model, inputs = decoder()
    together = ask(model, inputs, (4, 17), method).relevance
    assert together.any()
    if whyformer.methods()[method].class_specific:
        assert not together[:, 5:].any()
    for i in range(2):
        one = {key: value[i : i + 1] for key, value in inputs.items()}
        alone = ask(model, one, (4, 17), method).relevance[0]
        assert torch.allclose(together[i], alone, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_windows_work_or_are_refused(method: str) -> None:
    model, image = swin(), pixels().double()
    if method in ONE_SEQUENCE or method == "legrad":
        reason = "streams of one shape" if method == "legrad" else "tokens of one sequence"
        with pytest.raises(whyformer.ModelError, match=reason):
            ask(model, image, 1, method)
        return
    together = ask(model, image, 1, method).relevance
    assert together.any()
    for i in range(2):
        alone = ask(model, image[i : i + 1], 1, method).relevance[0]
        assert torch.allclose(together[i], alone, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_encoders_with_decoders_work_or_are_refused(method: str) -> None:
    model, inputs = bart()
    reasons = dict.fromkeys(ONE_SEQUENCE, "one sequence")
    reasons |= {"attcat": "cross-attention", "grad_sam": "cross-attention", "legrad": "one input"}
    if method in reasons:
        with pytest.raises(whyformer.ModelError, match=reasons[method]):
            ask(model, inputs, 1, method)
        return
    together = ask(model, inputs, 1, method)
    for i, length in enumerate((8, 6)):
        one = {key: value[i : i + 1, :length] for key, value in inputs.items()}
        for part, other in zip(ask(model, one, 1, method).parts, together.parts, strict=True):
            width = part.relevance.shape[1]
            assert part.relevance.any()
            assert torch.allclose(part.relevance[0], other.relevance[i, :width], atol=1e-8)


def test_windows_count_the_queries_of_their_own_map() -> None:
    """Without a gradient's sign: attention that a patch gets, mean over its window's queries."""
    model, image = swin(), pixels(batch=1).double()
    recording = whyformer.Explainer(model).record(image)
    question = recording._question(
        whyformer.engine.PRESETS["stable"], recording._resolve(1).starts[0]
    )
    layers = [a.mean(1) for a in question.attention]
    first, shifted, *_ = question.onto_streams(layers, "test")
    grid = torch.zeros(8, 8, dtype=torch.float64)
    rolled = torch.zeros(8, 8, dtype=torch.float64)
    for window in range(4):
        rows, columns = (slice(4 * k, 4 * k + 4) for k in divmod(window, 2))
        grid[rows, columns] = layers[0][window].mean(0).view(4, 4)
        rolled[rows, columns] = layers[1][window].mean(0).view(4, 4)
    close(first[0], grid.flatten(), 1e-9)
    close(shifted[0], rolled.roll((2, 2), (0, 1)).flatten(), 1e-9)


def test_legrad_reads_each_tower_of_clip() -> None:
    """By hand: a block's class token through the last norm, the projection and the similarity."""
    model, inputs = clip()
    model.set_attn_implementation("eager")
    inputs["pixel_values"] = inputs["pixel_values"].double()
    found = ask(model, inputs, 1, "legrad")
    vision = model.vision_model(
        inputs["pixel_values"], output_attentions=True, output_hidden_states=True
    )
    words = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    pooled = model.text_model(**words).pooler_output
    text = nn.functional.normalize(model.text_projection(pooled), dim=-1)[1]
    expected = torch.zeros(2, 17, dtype=torch.float64)
    for stream, attention in zip(vision.hidden_states[1:], vision.attentions, strict=True):
        read = model.visual_projection(model.vision_model.post_layernorm(stream[:, 0]))
        score = model.logit_scale.exp() * nn.functional.normalize(read, dim=-1) @ text
        (slope,) = torch.autograd.grad(score.sum(), attention, retain_graph=True)
        expected += slope.clamp(min=0).mean((1, 2)) / 2
    close(found.relevance, expected)  # transformers' softmax is in single precision
    assert found.part("input_ids").relevance.view(2, 3, 6)[:, 1].any()


# -- options


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_callers_gradient_mode_does_not_matter(mode: Any) -> None:
    model = Tiny("image")
    x = model.inputs(1)
    for method in METHODS:
        expected = ask(model, x, 1, method).relevance
        with mode():
            found = ask(model, x + 0, 1, method).relevance
        assert torch.equal(found, expected), method


def test_options_are_checked() -> None:
    model = Tiny("image")
    x = model.inputs(1)
    for method in ("tam", "bt_head", "bt_token", "iia"):
        with pytest.raises(
            whyformer.InputError, match="steps is 0; expected a whole number of at least 1"
        ):
            ask(model, x, 1, method, steps=0)
    for method in ("bt_head", "bt_token"):
        with pytest.raises(whyformer.UnknownNameError, match="start is block 2 of a model with 2"):
            ask(model, x, 1, method, start=2)
    with pytest.raises(whyformer.InputError, match="samples is 0"):
        ask(model, x, 1, "dave", samples=0)
    with pytest.raises(whyformer.InputError, match=r"kept is 1\.5; expected at most 1"):
        ask(model, x, 1, "dave", kept=1.5)


@pytest.mark.parametrize("method", ["tam", "bt_head", "bt_token", "iia", "dave"])
def test_long_methods_show_their_progress(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = Tiny("image")
    x = model.inputs(1)
    ask(model, x, 1, method, progress=True)
    total = 4 if method == "iia" else 2
    assert f"{total}/{total}" in capsys.readouterr().err
    ask(model, x, 1, method, progress=False)
    assert capsys.readouterr().err == ""
