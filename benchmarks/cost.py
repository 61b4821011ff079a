"""What an explanation costs, in forward passes of the same model.

    python benchmarks/cost.py            everything, about 12 minutes on two cores
    python benchmarks/cost.py --quick    fewer repetitions

Every figure is a ratio of medians within one process, forward and explanation taking turns, so
that a busy machine slows both. Each row runs in a process of its own. The table is printed and
written to benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent


def vit() -> tuple[Any, Any]:
    """ViT-B/16 at 224 pixels with random weights."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    model = ViTForImageClassification(ViTConfig(num_labels=1000)).eval()
    return model, lambda batch: torch.randn(batch, 3, 224, 224)


def bert() -> tuple[Any, Any]:
    """BERT-base at 512 tokens with random weights."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig()).eval()
    return model, lambda batch: torch.randint(1000, 30000, (batch, 512))


def interleaved(first: Callable[[], Any], second: Callable[[], Any], turns: int) -> list[float]:
    """Median seconds of two calls that take turns, after two warm-up turns."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns + 2):
        for call, kept in zip((first, second), seconds, strict=True):
            start = time.perf_counter()
            call()
            if turn >= 2:
                kept.append(time.perf_counter() - start)
    return [median(s) for s in seconds]


def explanation(kind: str, batch: int, threads: int, cache: bool, turns: int) -> dict[str, float]:
    """One explanation against the model's own forward without gradients."""
    import torch

    import whyformer

    torch.set_num_threads(threads)
    model, make = {"vit": vit, "bert": bert}[kind]()
    inputs = make(batch)
    explainer = whyformer.Explainer(model, cache_weights=cache)

    def forward() -> None:
        with torch.no_grad():
            model(inputs)

    plain, explained = interleaved(forward, lambda: explainer(inputs, target=1), turns)
    return {"forward": plain, "other": explained, "ratio": explained / plain}


def targets(threads: int, turns: int) -> dict[str, float]:
    """Five targets of one image in one call against five calls."""
    import torch

    import whyformer

    torch.set_num_threads(threads)
    model, make = vit()
    image = make(1)
    explainer = whyformer.Explainer(model)

    def singly() -> None:
        for target in range(5):
            explainer(image, target=target)

    five, together = interleaved(singly, lambda: explainer(image, target=[0, 1, 2, 3, 4]), turns)
    return {"forward": five, "other": together, "ratio": together / five}


def peak(what: str, batch: int) -> dict[str, float]:
    """The highest memory above the model's own, in MiB."""
    import torch

    import whyformer

    torch.set_num_threads(1)
    model, make = vit()
    image = make(batch)
    if what == "plain":
        model.set_attn_implementation("eager")

    def run() -> None:
        if what == "plain":
            output = model(image, output_attentions=True)
            torch.autograd.grad(output.logits[:, 1].sum(), output.attentions)
        else:
            whyformer.Explainer(model, cache_weights=what == "cached")(image, target=1)

    with torch.no_grad():
        model(make(1)[:, :, :224, :224])
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    run()
    return {"mib": (memory("VmHWM") - before) / 1024}


def memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


TASKS = {"explanation": explanation, "targets": targets, "peak": peak}


def measure(task: str, **arguments: Any) -> dict[str, float]:
    """Run one measurement in a fresh process."""
    command = [sys.executable, __file__, "--task", json.dumps({"task": task, **arguments})]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(task, arguments, {key: round(value, 3) for key, value in result.items()}, flush=True)
    return result


def report(quick: bool) -> str:
    import torch
    import transformers

    few, many = (2, 5) if quick else (5, 21)
    rows = ["| what | threads | cost | at most |", "|---|---|---|---|"]
    for batch in (1, 8):
        for threads in (1, 2):
            for cache in (False, True) if batch == 1 else (False,):
                found = measure(
                    "explanation", kind="vit", batch=batch, threads=threads, cache=cache,
                    turns=many if batch == 1 else few,
                )  # fmt: skip
                name = f"ViT-B/16, batch {batch}" + (", `cache_weights=True`" if cache else "")
                rows.append(f"| {name} | {threads} | {found['ratio']:.2f} forwards | 5.0 |")
    for threads in (1, 2):
        found = measure(
            "explanation", kind="bert", batch=1, threads=threads, cache=False, turns=few
        )
        rows.append(f"| BERT-base, 512 tokens | {threads} | {found['ratio']:.2f} forwards | 6 |")
    for threads in (1, 2):
        found = measure("targets", threads=threads, turns=few)
        rows.append(
            f"| five targets of one image in one call | {threads} | "
            f"{found['ratio']:.2f} of five calls | 0.8 |"
        )
    for batch in (1, 8):
        plain = measure("peak", what="plain", batch=batch)["mib"]
        for what, name in (("explained", ""), ("cached", ", `cache_weights=True`")):
            used = measure("peak", what=what, batch=batch)["mib"]
            rows.append(
                f"| peak memory above the model, ViT-B/16, batch {batch}{name} | 1 | "
                f"{used / plain:.2f} of a forward and backward ({used:.0f} MiB of {plain:.0f}) | "
                f"{'3.5' if not name else '-'} |"
            )
    table = "\n".join(rows)
    return f"""# What an explanation costs

    make bench

`transformer_attribution`, preset `stable`, random weights. A *forward* is the model's own, under
`torch.no_grad()`; forward and explanation take turns in one process, medians are compared. The
arithmetic limit for ViT-B is about 4.7: one forward, one gradient, three products a Linear layer
for relevance, less what the first and the last block can skip. Memory is the peak of the process
above the loaded model, against a plain forward with eager attention and a backward to its
attention maps. `cache_weights=True` keeps |W| of every weight between calls: a second copy of the
weights for a little time on single samples; it is off by default. On a shared machine runs scatter
by about 0.15 forwards.

{table}

Measured with torch {torch.__version__}, transformers {transformers.__version__}, Python
{platform.python_version()}, on {platform.machine()} with two cores.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        arguments = json.loads(options.task)
        print(json.dumps(TASKS[arguments.pop("task")](**arguments)))
        return
    text = report(options.quick)
    print("\n" + text)
    partial = HERE / "README.md.partial"
    partial.write_text(text)
    partial.replace(HERE / "README.md")


if __name__ == "__main__":
    main()
