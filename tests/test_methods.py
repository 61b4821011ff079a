"""The methods: their formulas, what they promise, and how a new one is added."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import warnings
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import contenders
import whyformer
from contenders import ask
from test_tiny_transformer import Tiny
from whyformer.demo.scenes import draw_scene
from whyformer.engine import GRADIENT, PRESETS
from whyformer.methods.attention_flow import _flow, _graph
from whyformer.methods.question import Answer, Question
from zoo import CASES, quick

DOCS = Path(__file__).resolve().parents[1] / "docs"
CASE = {case.name: case for case in CASES}
CAPTUM = {
    "input_x_gradient", "integrated_gradients", "lime", "saliency", "shapley_sampling",
    "smoothgrad",
}  # fmt: skip
AGNOSTIC = ("rollout", "raw_attention", "attention_flow", "alti", "globenc")


@pytest.fixture(scope="module")
def recording() -> whyformer.Recording:
    model, inputs = CASE["ViT"].make()
    return whyformer.Explainer(model.double()).record(inputs.double())


def test_the_registry_names_every_method_with_one_line() -> None:
    found = whyformer.methods()
    assert set(found) - CAPTUM == {
        "ablation_last_block", "ablation_no_gradient", "ablation_second_block", "agf", "alti",
        "attcat", "attention_flow", "attnlrp", "bt_head", "bt_token", "clrp", "cp_lrp", "dave",
        "deeplift", "deepshap", "excitation_backprop", "fullgrad", "fullgrad_2019",
        "generic_attention", "globenc", "grad_sam", "gradcam", "gradient_x_input", "iia", "legrad",
        "lrp", "occlusion", "partial_lrp", "rap", "raw_attention", "rollout", "sglrp", "tam",
        "tokentm", "transformer_attribution", "witness",
    }  # fmt: skip
    for method in found.values():
        assert method.summary
        assert "\n" not in method.summary
        assert method.class_specific == (method.name not in AGNOSTIC)


def test_the_page_lists_what_each_says_of_itself_extras_too() -> None:
    """Paper and year, cost, what it reads and where it works are said of every one."""
    table = runpy.run_path(str(DOCS / "hooks" / "methods.py"))["table"]()
    head, _, *lines = [line.strip("|").split("|") for line in table.splitlines()]
    assert [cell.strip() for cell in head[:4]] == ["method", "paper", "cost", "reads"]
    told = {line[0].strip(" `"): [cell.strip() for cell in line[1:]] for line in lines}
    assert set(told) == set(whyformer.methods()) | CAPTUM
    for name, (paper, cost, reads, *said, works) in told.items():
        assert re.search(r"\b(19|20)\d\d$", paper), name
        assert cost
        assert works
        assert set(said) <= {"yes", ""}
        assert reads.endswith("the extra `captum`") is (name in CAPTUM)
        assert not reads.startswith(";")
    assert told["witness"][3:6] == ["yes", "yes", ""]
    assert told["deeplift"][3:6] == ["yes", "yes", "yes"]


@pytest.mark.skipif(find_spec("captum") is not None, reason="captum is installed")
@pytest.mark.parametrize("name", sorted(CAPTUM))
def test_a_method_of_an_extra_says_what_to_install(name: str) -> None:
    assert name not in whyformer.methods()
    with pytest.raises(whyformer.UnknownNameError, match=r"pip install 'whyformer\[captum\]'"):
        whyformer.load("demo-text")("a joyless film", method=name)


@pytest.mark.parametrize(
    "code",
    [
        "import whyformer; whyformer.methods()",
        "import whyformer.cli; whyformer.cli.main(['classes', 'demo-text'])",
    ],
    ids=["methods", "classes"],
)
def test_listing_does_not_import_torch(code: str) -> None:
    code += "; import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def blocks(recording: whyformer.Recording, target: int, preset: str = "stable") -> Any:
    return recording.explain(target, preset=preset, keep_blocks=True).blocks


def product(layers: list[Tensor], normalise: bool = False) -> Tensor:
    """prod_b (I + layer_b) the plain way, the row of token 0."""
    eye = torch.eye(layers[0].shape[-1], dtype=layers[0].dtype)
    total = eye.expand_as(layers[0])
    for layer in layers:
        full = eye + layer
        total = (full / full.sum(-1, keepdim=True) if normalise else full) @ total
    return total[:, 0]


def test_each_method_is_its_formula(recording: whyformer.Recording) -> None:
    b = blocks(recording, 1)
    last_a, last_g = b.attention[-1], b.gradient[-1]
    pairs = list(zip(b.gradient, b.relevance, strict=True))
    seed = torch.eye(5, dtype=torch.float64)[[1, 1]]
    (lrp,) = recording.trace.backward(
        PRESETS["stable"].lrp,
        [(recording.trace.output, seed)],
        [recording.trace.seen.attention[-1].weights],
    )
    weights = last_g[:, :, 0, 1:].mean(-1, keepdim=True)
    expected = {
        "transformer_attribution": product([(g * r).clamp(min=0).mean(1) for g, r in pairs]),
        "generic_attention": product(
            [(g * a).clamp(min=0).mean(1) for g, a in zip(b.gradient, b.attention, strict=True)]
        ),
        "rollout": product([a.mean(1) for a in b.attention]),
        "raw_attention": last_a.mean(1)[:, 0],
        "gradcam": (weights * last_a[:, :, 0]).sum(1).clamp(min=0),
        "partial_lrp": lrp.clamp(min=0).mean(1)[:, 0],
    }
    for method, row in expected.items():
        target = None if method in AGNOSTIC else 1
        assert torch.allclose(recording.explain(target, method).relevance, row), method


def test_ablations_are_options(recording: whyformer.Recording) -> None:
    b = blocks(recording, 1)
    gr = [(g * r).clamp(min=0).mean(1) for g, r in zip(b.gradient, b.relevance, strict=True)]
    ar = [(a * r).clamp(min=0).mean(1) for a, r in zip(b.attention, b.relevance, strict=True)]
    for options, row in (
        ({"factor": "attention"}, product(ar)),
        ({"blocks": -1}, product(gr[-1:])),
        ({"blocks": 1}, product(gr[1:2])),
        ({"blocks": [0]}, product(gr[:1])),
        ({"blocks": slice(1, None)}, product(gr[1:])),
        ({"normalise_rows": True}, product(gr, normalise=True)),
        ({"factor": None}, product([r.clamp(min=0).mean(1) for r in b.relevance])),
    ):
        assert torch.allclose(recording.explain(1, **options).relevance, row), options


def test_lrp_reaches_the_pixels_and_sums_over_patches(recording: whyformer.Recording) -> None:
    explanation = recording.explain(1, "lrp")
    pixels = explanation.input_relevance
    assert pixels.shape == (2, 32, 32)
    assert (pixels < 0).any()
    patches = pixels.unfold(1, 8, 8).unfold(2, 8, 8).sum((-1, -2)).flatten(1)
    assert torch.allclose(explanation.relevance[:, 1:], patches)
    assert (explanation.relevance[:, 0] == 0).all()


def test_lrp_of_text_reaches_the_embeddings() -> None:
    model, inputs = CASE["BERT"].make()
    explanation = whyformer.Explainer(model)(inputs, 1, "lrp")
    assert explanation.input_relevance.shape == (2, 9)
    assert torch.equal(explanation.input_relevance, explanation.relevance)
    assert bool(explanation.relevance.any(-1).all())


def test_class_agnostic_methods_refuse_a_target_politely(recording: whyformer.Recording) -> None:
    for method in AGNOSTIC:
        options = quick(method)
        with pytest.warns(UserWarning, match="class-agnostic"):
            asked = recording.explain(3, method, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plain = recording.explain(None, method, **options)
        assert torch.equal(asked.relevance, plain.relevance)
        assert asked.target is None


def test_no_second_forward_and_shared_passes() -> None:
    """A recording answers everything from one forward; a target's gradient is computed once."""
    model, inputs = CASE["ViT"].make()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    recording = whyformer.Explainer(model).record(inputs)
    passes = []
    original = recording.trace.backward
    maps = [attention.weights for attention in recording.trace.seen.attention]

    def counted(table: Any, start: Any, of: Any, *rest: Any) -> Any:
        if any(value is a for value in of for a in maps):
            passes.append(table)
        return original(table, start, of, *rest)

    recording.trace.backward = counted
    for target in (0, 1):
        for method in ("transformer_attribution", "generic_attention", "gradcam", "partial_lrp"):
            recording.explain(target, method)
    recording.explain(method="rollout")
    assert len(calls) == 1
    stable = PRESETS["stable"]
    assert Counter(passes) == {GRADIENT: 2, stable.attribution: 2, stable.lrp: 2}


def brute_force_flow(layers: list[np.ndarray], rows: np.ndarray, token: int) -> float:
    """Minimum cut over every subset of nodes: equal to the maximum flow."""
    n = len(rows)
    nodes = n * (len(layers) + 1)
    capacity = np.zeros((nodes + 1, nodes + 1))
    for block, layer in enumerate(layers):
        mixed = (layer + np.eye(n)) / 2
        capacity[n * (block + 1) : n * (block + 2), n * block : n * (block + 1)] = mixed
    capacity[nodes, nodes - n : nodes] = rows
    others = [i for i in range(nodes) if i != token]
    best = np.inf
    for bits in range(2 ** len(others)):
        source = [nodes] + [node for place, node in enumerate(others) if bits >> place & 1]
        sink = [node for node in range(nodes + 1) if node not in source]
        best = min(best, capacity[np.ix_(source, sink)].sum())
    return float(best)


@pytest.mark.parametrize("method", sorted(set(whyformer.methods()) - CAPTUM))
def test_what_methods_say_of_their_signs(method: str) -> None:
    """Signed is who has a negative number on some input; the others never have one.

    RAP has none where every token holds more that excites than what inhibits takes: a trained model
    has others.
    """
    found = whyformer.methods()[method]
    assert found.facts is not None
    recordings = []
    if method == "rap":
        recordings.append(whyformer.load("demo-vision").record(draw_scene(0, 2).image))
    for name in ("ViT", "BERT"):
        model, inputs = CASE[name].make()
        recordings.append(whyformer.Explainer(model.double()).record(inputs))
    lowest = []
    for recording in recordings:
        for target in (0, 1) if found.class_specific else (None,):
            answer = recording.explain(target, method, **quick(method))
            reached = answer.input_relevance
            lowest += [float(x.min()) for x in (answer.relevance, reached) if x is not None]
    assert (min(lowest) < -1e-9) is found.facts.signed


def test_attention_flow_is_the_maximum_flow() -> None:
    generator = np.random.default_rng(0)
    layers = [generator.dirichlet(np.ones(3), 3) for _ in range(2)]
    rows = np.array([1.0, 0.0, 0.0])
    graph = _graph(layers, rows)
    for token in range(3):
        assert _flow(graph, token) == pytest.approx(brute_force_flow(layers, rows, token), abs=1e-4)


@pytest.mark.parametrize("kind", ["image", "mean"])
def test_attention_flow_of_a_model(kind: str) -> None:
    """The mean over heads, the blocks in their order, the asked rows: ten nodes, every cut."""
    model = Tiny(kind)
    x = model.inputs(1)
    found = ask(model, x, None, "attention_flow").relevance[0]
    m = contenders.maps(model, x[0], 0)
    layers = [contenders.mean(heads).numpy() for heads in m.a]
    for token in range(len(found)):
        expected = brute_force_flow(layers, np.array(m.rows), token)
        assert float(found[token]) == pytest.approx(expected, abs=1e-4)


def test_attention_flow_shows_its_progress(
    recording: whyformer.Recording, capsys: pytest.CaptureFixture[str]
) -> None:
    recording.explain(None, "attention_flow", progress=True)
    assert "34/34" in capsys.readouterr().err


def test_a_new_method_is_one_function() -> None:
    """The example of CONTRIBUTING.md."""

    @whyformer.register("last_gradient", "the last block's attention gradient, positive part")
    def last_gradient(question: Question) -> Answer:
        return question.pool(question.gradients(last_only=True)[-1].clamp(min=0).mean(1))

    try:
        model, inputs = CASE["ViT"].make()
        explanation = whyformer.Explainer(model)(inputs, 2, "last_gradient")
        assert explanation.relevance.shape == (2, 17)
        assert "last_gradient" in whyformer.methods()
    finally:
        from whyformer.methods import registry

        registry._METHODS.pop("last_gradient")


def test_class_specific_or_not(recording: whyformer.Recording) -> None:
    for method in whyformer.methods().values():
        options = quick(method.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            maps = [recording.explain(t, method.name, **options).relevance[:, 1:] for t in range(5)]
        assert any(not torch.equal(m, maps[0]) for m in maps) == method.class_specific


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ablation_no_gradient", {"factor": "attention"}),
        ("ablation_last_block", {"blocks": -1}),
        ("ablation_second_block", {"blocks": 1}),
    ],
)
@pytest.mark.parametrize("preset", ["stable", "paper"])
def test_ablations_are_the_method_with_one_thing_changed(
    recording: whyformer.Recording, name: str, options: dict[str, object], preset: str
) -> None:
    ablated = recording.explain(1, name, preset).relevance
    assert torch.equal(
        ablated, recording.explain(1, "transformer_attribution", preset, **options).relevance
    )
    assert not torch.equal(
        ablated, recording.explain(1, "transformer_attribution", preset).relevance
    )
