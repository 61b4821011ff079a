"""Methods with options in one word, wherever a method is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import whyformer
from command_line import Run
from whyformer.demo.scenes import draw_scene
from whyformer.errors import InputError, UnknownNameError
from whyformer.methods import get_method, get_registered, registry
from whyformer.methods.question import Answer, Question
from whyformer.provenance import digest_of

LIBRA = "generic_attention:gradient=libra"


@pytest.fixture(scope="module")
def why() -> Any:
    return whyformer.load("demo-vision")


def test_a_variant_is_the_method_with_its_option(why: Any) -> None:
    picture = torch.rand(1, 3, 96, 96)
    plain = why.explainer(picture, 3, "generic_attention").relevance
    libra = why.explainer(picture, 3, "generic_attention", gradient="libra").relevance
    found = why.explainer(picture, 3, LIBRA)
    assert torch.equal(found.relevance, libra)
    assert not torch.equal(found.relevance, plain)
    assert found.method == LIBRA


def test_several_options_and_their_types() -> None:
    method = get_method("transformer_attribution:factor=none:blocks=-1:normalise_rows=true")
    assert method.function.keywords == {  # type: ignore[attr-defined]
        "factor": None, "blocks": -1, "normalise_rows": True,
    }  # fmt: skip
    assert method.built_in
    assert method.facts == get_method("transformer_attribution").facts
    flow = get_method("attention_flow:progress=false")
    assert flow.function.keywords == {"progress": False}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("generic_attention:gradent=libra", "generic_attention has no option 'gradent'; did you"),
        ("rollout:blocks=1", "rollout has no option 'blocks'; it has none"),
        ("generic_attention:", "expected NAME:OPTION=VALUE"),
        ("generic_attention:gradient", "expected NAME:OPTION=VALUE"),
        ("generic_attention:gradient=a:gradient=b", "gives 'gradient' twice"),
        ("attention_flow:progress=3", "attention_flow: progress=3; expected bool, such as False"),
        ("generic:gradient=libra", "unknown method 'generic'"),
    ],
)
def test_mistakes_are_one_sentence(name: str, said: str) -> None:
    with pytest.raises((InputError, UnknownNameError)) as error:
        get_method(name)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["Best", "besst"])
def test_the_best_is_suggested(name: str) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'best'"):
        get_method(name)


def test_an_option_is_given_once(why: Any) -> None:
    image = draw_scene(0, 1).image
    with pytest.raises(InputError, match="presence is given twice: in 'witness:presence=0'"):
        why(image, method="best:presence=0", presence=1)
    flow = get_method("attention_flow:progress=false")
    assert flow.progress(True) == {}
    assert get_method("attention_flow").progress(True) == {"progress": True}


def test_numbers_of_a_method_of_ones_own() -> None:
    @whyformer.register("scaled", "raw attention, scaled")
    def scaled(question: Question, *, by: float = 2.0, head: int = 0) -> Answer:
        return question.pool(question.attention[-1][:, head] * by)

    try:
        found = get_method("scaled:by=3:head=1")
        assert found.function.keywords == {"by": 3.0, "head": 1}  # type: ignore[attr-defined]
        assert not found.built_in
        with pytest.raises(InputError, match=r"head=1\.5; expected int, such as 0"):
            get_method("scaled:head=1.5")
        assert digest_of("scaled:by=3") != digest_of("scaled:by=4")
    finally:
        registry._METHODS.pop("scaled")


def test_a_variants_code_is_its_methods() -> None:
    assert digest_of(LIBRA) == digest_of("generic_attention")


def test_only_registered_methods_are_answered_over_the_web() -> None:
    """An option such as a number of samples could keep the server busy for hours."""
    with pytest.raises(UnknownNameError, match="unknown method"):
        get_registered(LIBRA)


def test_variants_in_one_table(run: Run, tmp_path: Path) -> None:
    methods = f"generic_attention,{LIBRA}"
    code, output, errors = run(
        "evaluate", "pointing", "--limit", 2, "--methods", methods, "-q", "--out", tmp_path
    )
    assert code == 0, errors
    assert LIBRA in output
    found = json.loads((tmp_path / "results.json").read_text())["pointing"]
    assert found[LIBRA]["inside"] != found["generic_attention"]["inside"]


def test_variants_of_rationales_have_folders_of_their_own(run: Run, tmp_path: Path) -> None:
    code, _, errors = run(
        "evaluate", "rationales", "--limit", 1, "--methods", LIBRA, "-q", "--out", tmp_path
    )
    assert code == 0, errors
    assert (tmp_path / "rationales" / LIBRA.replace(":", "-") / "10.jsonl").exists()


def test_variants_side_by_side(run: Run, tmp_path: Path) -> None:
    code, output, errors = run(
        "compare", "a joyless film", "--methods", f"generic_attention,{LIBRA}", "--json", "-q"
    )
    assert code == 0, errors
    assert LIBRA in output
    code, _, errors = run("compare", "a joyless film", "--methods", "rollout:x=1")
    assert code == 2
    assert "rollout has no option 'x'" in errors
