"""How far whyformer reaches: every head that transformers offers, explained and checked.

    python benchmarks/reach.py                       all, with two processes
    python benchmarks/reach.py 'CAUSAL_LM:llama'     some, by a regular expression
    python benchmarks/reach.py --table docs/reach.md --out reach.jsonl

Tiny models with random weights, in double precision. A head is right when its explanation is
finite, a batch is its samples, SDPA is eager attention, two targets have two maps, and output and
gradients are plain autograd's.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from families import MIXED, Built, Case, cases, floating
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from tqdm import tqdm

import whyformer
from whyformer.engine import GRADIENT

SECONDS = 600
INTRODUCTION = f"""# What was tried

Every head that transformers {transformers.__version__} offers, as a tiny model with random weights,
explained for its natural target and checked by `python benchmarks/reach.py --table
docs/reference/reach.md`. *Right*: the explanation is finite, a batch is its samples (1e-8 in double
precision, 1e-3 where the model knows single precision alone), SDPA and eager attention agree, two
targets have two maps, output and gradients are plain autograd's, for `gradient_x_input`,
`fullgrad`, `generic_attention` and `transformer_attribution`; a method that does not apply refuses
in a sentence. *With a note*: the same, and the explanation says what it could not follow.

"""
METHODS = ("gradient_x_input", "fullgrad", "generic_attention", "transformer_attribution")


def difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference, of the largest value."""
    finite = expected.isfinite()
    largest = expected[finite].abs().max() if finite.any() else torch.tensor(0.0)
    if largest == 0:
        return float(found[finite].abs().max() > 0) if finite.any() else 0.0
    return float((found - expected)[finite].abs().max() / largest)


def parts(explanation: whyformer.Explanation) -> Tensor:
    """All of an explanation's relevance, (batch, tokens of all inputs)."""
    return torch.cat([part.relevance.double() for part in explanation.parts], 1)


def largest_difference(one: Any, other: Any, i: int | None = None) -> float:
    """Between two explanations, or between one's sample and another of that sample alone."""
    worst = 0.0
    for a, b in zip(one.parts, other.parts, strict=True):
        first = a.relevance if i is None else a.relevance[i : i + 1]
        n = min(first.shape[-1], b.relevance.shape[-1])
        scale = max(float(parts(other).abs().max()), 1e-30)
        worst = max(worst, float((first[..., :n] - b.relevance[..., :n]).abs().max()) / scale)
    return worst


class Lookups(TorchFunctionMode):
    """Every embedding that is looked up becomes a leaf of autograd's graph."""

    def __init__(self) -> None:
        super().__init__()
        self.leaves: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not nn.functional.embedding:
            return result
        self.leaves.append(result.detach().requires_grad_())
        return self.leaves[-1] * 1


def plain_gradients(built: Built, target: tuple[int, ...]) -> dict[tuple[int, ...], list[Tensor]]:
    """x dy/dx of every floating input and embedding, by plain autograd, by their shapes."""
    inputs = {
        k: v.detach().clone().requires_grad_() if floating(v) else v
        for k, v in built.inputs.items()
    }
    torch.manual_seed(0)
    with Lookups() as lookups:
        answer = built.answer(inputs)
    leaves = lookups.leaves
    leaves += [v for v in inputs.values() if floating(v)]
    rows = answer if answer.ndim > 1 else answer.unsqueeze(-1)
    y = sum(rows[(i, *target)] for i in range(len(rows)))
    found = torch.autograd.grad(y, leaves, allow_unused=True) if leaves else ()
    by_shape: dict[tuple[int, ...], list[Tensor]] = collections.defaultdict(list)
    for leaf, slope in zip(leaves, found, strict=True):
        if slope is not None:
            by_shape[tuple(leaf.shape)].append((leaf * slope).detach())
    return by_shape


def seeded(explainer: Any, inputs: Any, target: tuple[int, ...], method: str) -> Any:
    """An explanation; some models draw random numbers in their forward."""
    torch.manual_seed(0)
    return explainer(inputs, target=target, method=method)


def checked(case: Case) -> dict[str, Any]:
    """One case: what each method gave, and what is wrong with it."""
    built = case.build()
    first, second = (target or (0,) for target in built.targets)
    built.targets = first, second
    exact = next(built.model.parameters()).dtype is torch.float64
    close = 1e-8 if exact else 1e-3
    explainer = whyformer.Explainer(built.model, output=built.output)
    torch.manual_seed(0)
    recording = explainer.record(built.inputs)
    wrong, found = list(forward_faults(built, recording, exact)), {}
    for method in METHODS:
        try:
            found[method] = seeded(explainer, built.inputs, first, method)
        except whyformer.WhyformerError as error:
            found[method] = str(error)
    answered = {m: e for m, e in found.items() if not isinstance(e, str)}
    for method, explanation in answered.items():
        wrong += method_faults(built, explainer, method, explanation, second, close, case.family)
    wrong += list(eager_faults(case, built, answered, close))
    notes = sorted({note for e in answered.values() for note in e.notes})
    refused = {m: e for m, e in found.items() if isinstance(e, str)}
    wrong += [f"{m}: {e}" for m, e in refused.items() if "recorded model failed" in e]
    kinds = [part.tokens.kind for part in next(iter(answered.values())).parts] if answered else []
    return {"wrong": wrong, "notes": notes, "refused": refused, "parts": kinds}


def forward_faults(built: Built, recording: whyformer.Recording, exact: bool) -> Iterator[str]:
    torch.manual_seed(0)
    with torch.no_grad():
        own = built.answer(built.inputs)
    answer = recording.logits if own.ndim > 1 else recording.logits.squeeze(-1)
    tolerance = 1e-5 if exact else 1e-3  # models cast down inside; recordings do not
    if (error := difference(answer, own)) > tolerance:
        yield f"output differs by {error:.0e}"
    target = built.targets[0]
    seed = torch.zeros_like(recording.trace.output)
    for i in range(len(seed)):
        seed[(i, *(target or (0,)))] = 1
    roots = recording.trace.seen.roots
    slots = recording.trace.backward(
        GRADIENT, [(recording.trace.output, seed)], [root.leaf for root in roots]
    )
    plain = plain_gradients(built, target)
    for root, slot in zip(roots, slots, strict=True):
        candidates = plain.get(tuple(root.leaf.shape), [])
        if slot is None or not candidates:
            continue
        error = min(difference(root.leaf * slot, candidate) for candidate in candidates)
        if error > 1e3 * tolerance * 1e-2:
            yield f"gradient of {root.name} differs by {error:.0e}"


def method_faults(
    built: Built,
    explainer: whyformer.Explainer,
    method: str,
    explanation: whyformer.Explanation,
    second: tuple[int, ...],
    close: float,
    family: str,
) -> Iterator[str]:
    whole = parts(explanation)
    if not whole.isfinite().all():
        yield f"{method}: not finite"
    blank = not whole.abs().sum(1).gt(0).all()
    if blank and not any("the map is zero" in note for note in explanation.notes):
        yield f"{method}: a map of zeros"
    if family not in MIXED:
        for i in range(2):
            alone = seeded(explainer, built.sample(i), built.targets[0], method)
            error = largest_difference(explanation, alone, i)
            if error > close:
                yield f"{method}: sample {i} alone differs by {error:.0e}"
    if second != built.targets[0]:
        other = seeded(explainer, built.inputs, second, method)
        if not blank and largest_difference(explanation, other) < 1e-6:
            yield f"{method}: two targets, one map"


def eager_faults(case: Case, built: Built, answered: dict[str, Any], close: float) -> Iterator[str]:
    eager = case.build("eager")
    if eager.model.config._attn_implementation != "eager":
        return
    same = next(eager.model.parameters()).dtype is next(built.model.parameters()).dtype
    eager.model.load_state_dict(built.model.state_dict())
    with torch.no_grad():
        if difference(eager.answer(eager.inputs), built.answer(built.inputs)) > 1e-3:
            return  # the model itself differs
    explainer = whyformer.Explainer(eager.model, output=eager.output)
    for method, explanation in answered.items():
        other = seeded(explainer, eager.inputs, built.targets[0], method)
        error = largest_difference(explanation, other)
        if error > max(close, 1e-7 if same else 1e-3):
            yield f"{method}: eager and SDPA differ by {error:.0e}"


def status(row: dict[str, Any]) -> str:
    """right, right with a note, refused by every method, wrong, crashed, or not built."""
    if "error" in row:
        return "crashed"
    if row["wrong"]:
        return "wrong"
    if len(row["refused"]) == len(METHODS):
        return "refused"
    return "right, with a note" if row["notes"] else "right"


def work(case: Case, pipe: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    try:
        case.build()
    except Exception as error:
        pipe.send({"unbuilt": f"{type(error).__name__}: {str(error)[:120]}"})
        return
    try:
        pipe.send(checked(case))
    except whyformer.WhyformerError as error:
        pipe.send(
            {"wrong": [], "notes": [], "parts": [], "refused": dict.fromkeys(METHODS, str(error))}
        )
    except Exception as error:
        pipe.send({"error": f"{type(error).__name__}: {str(error).strip()[:300]}"})


def in_child(case: Case) -> dict[str, Any]:
    """A case in a process of its own, within the time limit."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(case, there))
    child.start()
    there.close()
    try:
        row = here.recv() if here.poll(SECONDS) else {"error": f"no answer in {SECONDS} seconds"}
    except EOFError:
        row = {"error": "the process died"}
    finally:
        child.kill()
        child.join()
    return {"case": case.name, "task": case.task, "family": case.family, **row}


def table(rows: list[dict[str, Any]]) -> str:
    """Counts by task, then every head, as Markdown."""
    order = ("right", "right, with a note", "refused", "wrong", "crashed")
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row["task"]][status(row)] += 1
    total: collections.Counter[str] = sum(counts.values(), collections.Counter())
    lines = ["| head | " + " | ".join(order) + " |", "|---" * (len(order) + 1) + "|"]
    for task, found in [*counts.items(), ("all", total)]:
        name = task.lower().replace("_", " ")
        lines.append(f"| {name} | " + " | ".join(str(found[key] or "") for key in order) + " |")
    lines += ["", "| head | status | remarks |", "|---|---|---|"]
    for row in sorted(rows, key=lambda row: row["case"]):
        said = (
            row.get("wrong", [])
            + row.get("notes", [])
            + [f"{method}: {why}" for method, why in row.get("refused", {}).items()]
            + [row.get("error", "")]
        )
        remark = "; ".join(filter(None, said)).replace("|", "/")
        lines.append(f"| {row['case'].partition(':')[2]} | {status(row)} | {remark[:300]} |")
    return INTRODUCTION + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("pattern", nargs="?", default="", help="of the cases' names")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a line of JSON for each case")
    parser.add_argument("--table", type=Path, help="the counts and every head, as Markdown")
    options = parser.parse_args()
    listed = cases(options.pattern)
    rows = []
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(options.processes) as pool:
        for row in tqdm(pool.map(in_child, listed), total=len(listed), unit="head"):
            if "unbuilt" not in row:
                rows.append(row)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    if options.table:
        options.table.write_text(table(rows))
    shown = table(rows).removeprefix(INTRODUCTION)
    print(shown.partition("\n\n")[0] if len(rows) > 12 else shown)


if __name__ == "__main__":
    main()
