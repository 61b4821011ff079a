"""``whyformer bench``: what explanations cost on this machine."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import whyformer
from command_line import Run
from whyformer.errors import InputError
from whyformer.evaluation.run.costs import costs, example, peak
from whyformer.models.language import LanguagePipeline
from whyformer.models.pipeline import Pipeline
from whyformer.models.recorded import Recorded

FEW = "rollout,generic_attention"


def test_the_table(run: Run) -> None:
    status, printed, said = run("bench", "--methods", FEW, "--turns", "1")
    assert status == 0
    first, _, heading, *rows = printed.splitlines()
    assert first.startswith("demo-vision: a forward of 1 takes ")
    assert heading.split() == ["method", "forwards", "samples/s", "peak", "MiB"]
    assert {row.split()[0] for row in rows} == set(FEW.split(","))
    for row in rows:
        forwards, rate, mib = map(float, row.split()[1:])
        assert forwards > 0.9
        assert rate > 0
        assert mib > 1
    assert "timing" in said


def test_json_of_a_text_model(run: Run) -> None:
    status, printed, said = run(
        "bench", "demo-text", "--methods", "rollout", "--turns", "1", "--batch", "3", "--json",
        "-q", "--precision", "fast", "--tokens", "20",
    )  # fmt: skip
    assert status == 0
    assert said == ""
    found = json.loads(printed)
    assert (found["model"], found["batch"], found["precision"]) == ("demo-text", 3, "fast")
    (cost,) = found["methods"]
    assert cost["method"] == "rollout"
    assert cost["samples_per_second"] == pytest.approx(
        3 / (cost["forwards"] * cost["forward_seconds"])
    )


def test_what_is_wrong_is_said_before_the_model_is_loaded(run: Run) -> None:
    assert run("bench", "--methods", "rolout")[2].startswith("whyformer: unknown method 'rolout'")
    assert "unknown precision" in run("bench", "no-model", "--precision", "half")[2]
    status, _, said = run("bench", "--batch", "0")
    assert status == 2
    assert "0 is less than 1" in said


@pytest.mark.parametrize(("tokens", "length"), [(20, 20), (10**4, None)])
def test_a_text_has_the_length_that_was_asked_for(tokens: int, length: int | None) -> None:
    why = whyformer.load("demo-text")
    inputs = example(why, 2, tokens)
    assert inputs["input_ids"].shape == (2, length or why.longest)


@pytest.mark.parametrize(("tokens", "length"), [(20, 20), (10**4, None)])
def test_a_prompt_is_asked_about_its_end_alone(tokens: int, length: int | None) -> None:
    why = whyformer.load("demo-writer")
    assert isinstance(why, LanguagePipeline)
    inputs = example(why, 2, tokens)
    assert inputs["input_ids"].shape == (2, length or why.longest)
    assert why.model(**inputs).logits.shape[:2] == (2, 1)
    (cost,) = costs(why, ["witness"], example(why, 1, 12), turns=1)
    assert cost.forwards > 1
    assert cost.peak_mib > 0


def test_peak_counts_what_is_held_at_once() -> None:
    weight = torch.zeros(10**7)

    def work() -> None:
        weight.view(-1).add_(1)
        kept = torch.zeros(10**6)
        for _ in range(3):
            torch.zeros(10**6)
        kept += 1

    assert 8 * 10**6 <= peak(work) < 8.1 * 10**6


def test_a_model_that_classifies_nothing_is_refused() -> None:
    class Other(Pipeline):
        kind = "sound"

        @property
        def reads(self) -> dict[str, int]:
            return {}

        def record(self, inputs: Any, *, progress: bool = False) -> Recorded:
            raise NotImplementedError

        def _prepared_example(self) -> bytes:
            return b""

    other = Other("some-model", whyformer.load("demo-text").explainer)
    with pytest.raises(InputError, match="some-model is a sound model"):
        example(other, 1, 1)


def test_costs_are_of_the_method_alone() -> None:
    why = whyformer.load("demo-vision")
    few, many = costs(why, ["rollout", "occlusion"], example(why, 1, 1), turns=1)
    assert many.forwards > 3 * few.forwards
