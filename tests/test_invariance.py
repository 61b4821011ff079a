"""What must not matter: the batch, padding, how many targets are asked at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as T
from torch import Tensor, nn

import whyformer
from zoo import CASES, Case, quick, text

METHODS = [name for name in whyformer.methods() if name != "attention_flow"]
SOME = [c for c in CASES if c.name in ("ViT", "DINOv2", "BERT", "BEiT", "by hand, mean-pooled")]
SOME += [c for c in CASES if "TransformerEncoder" in c.name or "masked mean" in c.name]
PRESETS = ("stable", "paper", "reference")
#: methods that ask the preset for a rule or a convention; the others have one map under all
ASK_THE_PRESET = """
transformer_attribution ablation_last_block ablation_no_gradient ablation_second_block partial_lrp
lrp clrp sglrp gradcam rollout
""".split()


def asked_under(preset: str) -> list[str]:
    """The methods whose map under a preset is not the one under the first."""
    return METHODS if preset == PRESETS[0] else ASK_THE_PRESET


def one_of(inputs: Any, i: int) -> Any:
    if isinstance(inputs, Tensor):
        return inputs[i : i + 1]
    return {key: value[i : i + 1] for key, value in inputs.items()}


def in_double(case: Case) -> tuple[torch.nn.Module, Any]:
    model, inputs = case.make()
    return model.double(), inputs.double() if isinstance(inputs, Tensor) else inputs


def close(a: Tensor, b: Tensor, tolerance: float = 1e-8) -> bool:
    return bool((a - b).abs().max() <= tolerance * b.abs().max().clamp(min=1e-12))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("case", SOME, ids=lambda c: c.name)
def test_a_batch_is_its_samples(case: Case, preset: str) -> None:
    model, inputs = in_double(case)
    explainer = whyformer.Explainer(model)
    batched = explainer.record(inputs)
    singles = [explainer.record(one_of(inputs, i)) for i in range(2)]
    for method in asked_under(preset):
        target = 1 if whyformer.methods()[method].class_specific else None
        together = batched.explain(target, method, preset, **quick(method))
        for i, single in enumerate(singles):
            alone = single.explain(target, method, preset, **quick(method))
            assert close(together.relevance[i], alone.relevance[0]), method
            if alone.input_relevance is not None:
                assert close(together.input_relevance[i], alone.input_relevance[0]), method


def test_a_batch_as_large_as_the_sequence_in_a_sequence_first_model() -> None:
    """(tokens, batch, width) with tokens == batch: only the transposes tell them apart."""
    case = next(c for c in CASES if "sequence first" in c.name)
    model, _ = in_double(case)
    inputs = {"input_ids": torch.randint(5, 60, (9, 9))}
    explainer = whyformer.Explainer(model)
    together = explainer(inputs, target=1).relevance
    for i in range(9):
        assert close(together[i], explainer(one_of(inputs, i), target=1).relevance[0])


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "name", ["BERT", "RoBERTa", "DistilBERT", "ELECTRA", "ALBERT", "BERT, masked mean"]
)
def test_padding_does_not_matter(name: str, preset: str) -> None:
    case = next(c for c in CASES if c.name == name)
    model, _ = in_double(case)
    torch.manual_seed(7)
    short = {key: value[:1, :6] for key, value in text().items()}
    padded = {
        "input_ids": torch.nn.functional.pad(short["input_ids"], (0, 4), value=1),
        "attention_mask": torch.nn.functional.pad(short["attention_mask"], (0, 4)),
    }
    explainer = whyformer.Explainer(model)
    first, second = explainer.record(short), explainer.record(padded)
    for method in asked_under(preset):
        target = 1 if whyformer.methods()[method].class_specific else None
        expected = first.explain(target, method, preset, **quick(method))
        found = second.explain(target, method, preset, **quick(method))
        whole_map = preset == "reference" and method == "gradcam"  # averages over padding as well
        if not whole_map:
            assert close(found.relevance[:, :6], expected.relevance, 1e-7), method
        assert not found.content[:, 6:].any()


@pytest.mark.parametrize(
    "method", ["transformer_attribution", "gradcam", "lrp", "generic_attention"]
)
@pytest.mark.parametrize("case", SOME[:3], ids=lambda c: c.name)
def test_several_targets_are_one_at_a_time(case: Case, method: str) -> None:
    model, inputs = in_double(case)
    explainer = whyformer.Explainer(model)
    together = explainer(inputs, target=[[0, 2], [1, 0]], method=method)
    assert together.relevance.shape[:2] == (2, 2)
    assert together.target.tolist() == [[0, 2], [1, 0]]
    for column, targets in enumerate(([0, 1], [2, 0])):
        alone = explainer(inputs, target=targets, method=method)
        assert close(together.relevance[:, column], alone.relevance)


@pytest.mark.parametrize("case", [SOME[0], SOME[1], SOME[-1]], ids=lambda c: c.name)
def test_who_asks_the_preset(case: Case) -> None:
    """What the tests above do once for all presets is the same, to the last bit, under each."""
    model, inputs = in_double(case)
    recording = whyformer.Explainer(model).record(inputs)
    for method in set(METHODS) - set(ASK_THE_PRESET):
        target = 1 if whyformer.methods()[method].class_specific else None
        one, *others = (
            recording.explain(target, method, preset, **quick(method)).relevance
            for preset in PRESETS
        )
        assert all(one.equal(other) for other in others), method


def test_kept_denominators_do_not_leak_between_presets() -> None:
    case = next(c for c in CASES if c.name == "ViT")
    model, inputs = in_double(case)
    explainer = whyformer.Explainer(model)
    recording = explainer.record(inputs)
    for preset in (*PRESETS, *reversed(PRESETS)):
        for method in ("transformer_attribution", "partial_lrp", "lrp"):
            found = recording.explain(1, method, preset).relevance
            assert close(found, explainer(inputs, 1, method, preset).relevance)


def test_matrix_holds_the_pooled_row() -> None:
    case = next(c for c in CASES if c.name == "ViT")
    model, inputs = in_double(case)
    for method in ("transformer_attribution", "rollout", "generic_attention", "raw_attention"):
        explanation = whyformer.Explainer(model)(inputs, method=method, matrix=True)
        assert explanation.matrix.shape == (2, 17, 17)
        assert close(explanation.matrix[:, 0], explanation.relevance)


# -- rotary positions


class DoubleRotary(nn.Module):
    """Llama's angles in double precision: its own are single, whatever the model is."""

    def __init__(self, frequencies: Tensor) -> None:
        super().__init__()
        self.frequencies = frequencies.double()

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = position_ids[..., None].double() * self.frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


@pytest.mark.parametrize("preset", ["stable", "paper"])
@pytest.mark.parametrize("head", ["LlamaForCausalLM", "LlamaForSequenceClassification"])
def test_positions_that_are_all_shifted(head: str, preset: str) -> None:
    """Rotary attention knows distances alone; so does what explains it."""
    config = T.LlamaConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64, num_labels=3,
        pad_token_id=0,
    )  # fmt: skip
    model = getattr(T, head)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    model = model.double().eval()
    model.model.rotary_emb = DoubleRotary(model.model.rotary_emb.inv_freq)
    explainer = whyformer.Explainer(model)
    ids, places = torch.randint(5, 90, (2, 9)), torch.arange(9).expand(2, 9)

    def asked(position_ids: Tensor) -> tuple[Tensor, Tensor]:
        inputs = {"input_ids": ids, "position_ids": position_ids}
        with torch.no_grad():
            logits = model(**inputs).logits
        return logits, explainer(inputs, 1, preset=preset).relevance

    logits, relevance = asked(places)
    for shifted, plain in zip(asked(places + 7), (logits, relevance), strict=True):
        assert (shifted - plain).abs().max() <= 1e-8 * plain.abs().max()
    assert (asked(places * 2)[0] - logits).abs().max() > 1e-3
