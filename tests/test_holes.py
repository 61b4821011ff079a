"""Memory that was freed goes back to the system while large inputs are explained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import whyformer
from whyformer.engine import holes
from whyformer.engine.holes import Holes
from zoo import CASES

#: the peak of a process that explains one long text, with holes given back or kept, in MiB
PEAK = """
import sys, torch
from transformers import LlamaConfig, LlamaForCausalLM
import whyformer
from whyformer.engine import holes

def told(field):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024

holes.EVERY = 64 * 2**20
if sys.argv[1] == "kept":
    holes.TRIM = None
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=100, hidden_size=512, intermediate_size=1024, num_hidden_layers=6,
    num_attention_heads=8, max_position_embeddings=2048,
)
explainer = whyformer.Explainer(LlamaForCausalLM(config).eval())
before = told("VmRSS")
explainer(torch.randint(100, (1, 2048)), target=(-1, 1), method="fullgrad")
print(told("VmHWM") - before)
"""


#: the fresh pages that a process takes when it makes again what it has freed, kept or not
AGAIN = """
import resource, sys, torch
from whyformer.engine import holes

def make():
    made = [torch.ones(2**18) for _ in range(64)]
    del made
    holes.give_back()

if sys.argv[1] == "kept":
    holes.keep()
make(), make()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
make()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

needs_glibc = pytest.mark.skipif(
    holes.TRIM is None or not Path("/proc/self/status").exists(),
    reason="this system keeps no holes, or does not tell of its memory",
)


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    monkeypatch.setattr(holes, "TRIM", calls.append)
    return calls


def test_holes_go_back_when_so_much_was_made(
    given_back: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes, "EVERY", 1000)
    made = Holes()
    made.count(torch.zeros(100), None, "no tensor")
    made.count(torch.zeros(100, device="meta"))
    made.count((torch.zeros(1000),))
    assert given_back == []
    made.count(torch.zeros(100), torch.zeros(50))
    assert given_back == [0]
    made.count(torch.zeros(200))
    assert given_back == [0]


def test_both_ways_through_a_model_count(
    given_back: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes, "EVERY", 1)
    model, inputs = CASES[0].make()
    recording = whyformer.Explainer(model).record(inputs)
    forward = len(given_back)
    assert forward > 10
    recording.explain(target=0)
    backward = len(given_back) - forward
    assert backward > 10
    whyformer.Explainer(model)(inputs, target=[[0, 1]] * len(inputs))
    assert len(given_back) > 2 * (forward + 10)


def test_a_small_model_is_left_alone(given_back: list[int]) -> None:
    model, inputs = CASES[0].make()
    whyformer.Explainer(model)(inputs, target=0)
    assert given_back == []


def test_other_c_libraries_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holes, "TRIM", None)
    holes.give_back()


@needs_glibc
def test_who_needs_as_much_again_keeps_it() -> None:
    assert told(AGAIN, "kept") < told(AGAIN, "back") / 4


@pytest.mark.slow
@needs_glibc
def test_a_long_text_takes_less() -> None:
    assert told(PEAK, "back") < 0.85 * told(PEAK, "kept")


def told(script: str, how: str) -> float:
    """What a process of its own says of itself."""
    done = subprocess.run([sys.executable, "-c", script, how], capture_output=True, check=True)
    return float(done.stdout)
