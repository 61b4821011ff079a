"""What an explanation costs, in forward passes of the same model.

    python benchmarks/cost.py            everything, about 15 minutes on two cores
    python benchmarks/cost.py --quick    fewer repetitions

The environment needs captum, whose methods stand in the same table (`make bench` has it).

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
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
#: forwards that stand beside one call of a peer, which may take hundreds
FORWARDS = 5


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


def interleaved(
    first: Callable[[], Any], second: Callable[[], Any], turns: int, warm: int = 2
) -> list[float]:
    """Median seconds of two calls that take turns, after some warm-up turns."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns + warm):
        for call, kept in zip((first, second), seconds, strict=True):
            start = time.perf_counter()
            call()
            if turn >= warm:
                kept.append(time.perf_counter() - start)
    return [median(s) for s in seconds]


def llama(tokens: int = 1024) -> tuple[Any, Any]:
    """A causal decoder of 12 layers, 768 wide, with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192, hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
        num_attention_heads=12, max_position_embeddings=8192,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    return model, lambda batch: torch.randint(10, 8000, (batch, tokens))


MODELS = {"vit": vit, "bert": bert, "llama": llama}


def question(kind: str, method: str) -> dict[str, Any]:
    """What is asked of a model; a balanced gradient where the method knows several."""
    balanced = {"gradient": "libra"} if method != "transformer_attribution" else {}
    return {"target": (-1, 1) if kind == "llama" else 1, "method": method, **balanced}


def explanation(
    kind: str, method: str, batch: int, threads: int, turns: int, precision: str = "full"
) -> dict[str, float]:
    """One explanation against the model's own forward without gradients."""
    import torch

    import whyformer

    torch.set_num_threads(threads)
    model, make = MODELS[kind]()
    inputs = make(batch)
    explainer = whyformer.Explainer(model)
    asked = {**question(kind, method), "precision": precision}

    def forward() -> None:
        with torch.no_grad():
            model(inputs)

    plain, explained = interleaved(forward, lambda: explainer(inputs, **asked), turns)
    return {"forward": plain, "other": explained, "ratio": explained / plain}


def peer(name: str, threads: int, turns: int) -> dict[str, float]:
    """What others' methods cost on one image: Captum's, as it is used."""
    import torch
    from captum import attr

    torch.set_num_threads(threads)
    model, make = vit()
    image = make(1)
    calls: dict[str, Callable[[Any], Callable[[], Any]]] = {
        "IntegratedGradients": lambda method: (
            lambda: method.attribute(image, target=1, n_steps=50, internal_batch_size=5)
        ),
        "InputXGradient": lambda method: (
            lambda: method.attribute(image.clone().requires_grad_(), target=1)
        ),
        "Occlusion": lambda method: (
            lambda: method.attribute(
                image, (3, 16, 16), strides=(3, 16, 16), target=1, perturbations_per_eval=4
            )
        ),
    }
    call = calls[name](getattr(attr, name)(lambda pixels: model(pixels).logits))

    def forwards() -> None:
        with torch.no_grad():
            for _ in range(FORWARDS):
                model(image)

    forwards()
    plain, explained = interleaved(forwards, call, turns, warm=0)
    plain /= FORWARDS
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

    five, together = interleaved(singly, lambda: explainer(image, target=[[0, 1, 2, 3, 4]]), turns)
    return {"forward": five, "other": together, "ratio": together / five}


def peak(kind: str, method: str | None, batch: int, calls: int = 1) -> dict[str, float]:
    """The highest memory above the model's own, in MiB.

    Without a method a plain forward and a backward: with eager attention to its maps, as methods
    that read maps need them; or as the model has it, SDPA, to the embeddings.
    """
    import torch

    import whyformer

    torch.set_num_threads(2)
    model, make = llama(8192) if kind == "llama" else MODELS[kind]()
    inputs = make(batch)
    maps = kind != "llama"
    if method is None and maps:
        model.set_attn_implementation("eager")
    with torch.no_grad():
        model(make(1)[..., :224])
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    for _ in range(calls):
        if method is not None:
            whyformer.Explainer(model)(inputs, **question(kind, method))
        elif maps:
            output = model(inputs, output_attentions=True)
            torch.autograd.grad(output.logits[:, 1].sum(), output.attentions)
        else:
            embedded = model.get_input_embeddings()(inputs).detach().requires_grad_()
            for parameter in model.parameters():
                parameter.requires_grad_(False)
            logits = model(inputs_embeds=embedded, use_cache=False).logits
            torch.autograd.grad(logits[0, -1, 1], embedded)
    return {"mib": (memory("VmHWM") - before) / 1024}


def memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])


TASKS = {"explanation": explanation, "peer": peer, "targets": targets, "peak": peak}


def measure(task: str, **arguments: Any) -> dict[str, float]:
    """Run one measurement in a fresh process."""
    command = [sys.executable, __file__, "--task", json.dumps({"task": task, **arguments})]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(task, arguments, {key: round(value, 3) for key, value in result.items()}, flush=True)
    return result


NAMES = {
    "vit": "ViT-B/16",
    "bert": "BERT-base, 512 tokens",
    "llama": "Llama shape (12 layers, 768 wide), 1,024 tokens",
}


def costs(few: int, many: int) -> Iterator[str]:
    for kind, method, batches, bound, precision in (
        ("vit", "transformer_attribution", (1, 8), 4.8, "full"),
        ("vit", "transformer_attribution", (1, 8), 3.6, "fast"),
        ("vit", "generic_attention", (1, 8), 2.2, "full"),
        ("vit", "witness", (1, 8), 2.2, "full"),
        ("bert", "transformer_attribution", (1,), 6.0, "full"),
        ("llama", "fullgrad", (1,), 2.6, "full"),
    ):
        for batch in batches:
            for threads in (1, 2):
                turns = many if (kind, batch) == ("vit", 1) else few
                found = measure(
                    "explanation", kind=kind, method=method, batch=batch, threads=threads,
                    turns=turns, precision=precision,
                )  # fmt: skip
                size = f", batch {batch}" if len(batches) > 1 else ""
                fast = ", `fast`" if precision == "fast" else ""
                yield (
                    f"| `{method}`{fast}, {NAMES[kind]}{size} | {threads} | "
                    f"{found['ratio']:.2f} forwards | {bound} |"
                )
    for name, how in (
        ("InputXGradient", ""),
        ("IntegratedGradients", ", 50 steps"),
        ("Occlusion", ", 196 patches"),
    ):
        found = measure("peer", name=name, threads=2, turns=few)
        yield f"| Captum's `{name}`{how}, ViT-B/16, batch 1 | 2 | {found['ratio']:.1f} forwards | |"
    for threads in (1, 2):
        found = measure("targets", threads=threads, turns=few)
        yield (
            f"| five targets of one image in one call | {threads} | "
            f"{found['ratio']:.2f} of five calls | 0.65 |"
        )


def memories() -> Iterator[str]:
    for kind, method, batch, name, bound in (
        ("vit", "transformer_attribution", 1, "ViT-B/16, batch 1", 1.7),
        ("vit", "transformer_attribution", 8, "ViT-B/16, batch 8", 1.3),
        ("bert", "transformer_attribution", 1, NAMES["bert"], 1.7),
        ("llama", "fullgrad", 1, "Llama shape, 8,192 tokens, SDPA", 1.5),
    ):
        plain = middle_peak(kind=kind, method=None, batch=batch)
        used = middle_peak(kind=kind, method=method, batch=batch)
        yield (
            f"| peak memory above the model, `{method}`, {name} | 2 | {used / plain:.2f} of a "
            f"forward and backward ({used:.0f} MiB of {plain:.0f}) | {bound} |"
        )
    asked = {"kind": "bert", "method": "transformer_attribution", "batch": 1}
    two, ten = (middle_peak(**asked, calls=calls) for calls in (2, 10))
    yield (
        f"| peak memory of ten explanations after one another, {NAMES['bert']} | 2 | "
        f"{ten / two:.2f} of two ({ten:.0f} MiB of {two:.0f}) | 1.05 |"
    )


def middle_peak(**asked: Any) -> float:
    """Of three processes: the allocator scatters by a tenth."""
    return median(measure("peak", **asked)["mib"] for _ in range(3))


def report(quick: bool) -> str:
    import torch
    import transformers

    few, many = (2, 5) if quick else (5, 21)
    table = "\n".join(
        ["| what | threads | cost | at most |", "|---|---|---|---|", *costs(few, many), *memories()]
    )
    return f"""# What an explanation costs

    make bench

Preset `stable`, random weights; all but `transformer_attribution` with the balanced gradient
`libra`. A *forward* is the model's own, under `torch.no_grad()`; forward and explanation take
turns in one process, medians are compared. The arithmetic limit of the paper's method on ViT-B is
about 4.7: one forward, one gradient, three products a Linear layer for relevance, less what the
first and the last block can skip; a balanced gradient's is 2.0. Products on the way back are
oneDNN's: where they are faster than those that torch chooses for the forward, as on processors by
AMD, an explanation takes less. `fast` is `precision="fast"`. Memory is the peak of the process
above the loaded model, against a plain forward and backward: with eager attention to its maps for
methods that read them, as the model has it (SDPA) for `fullgrad`, which reads streams. On a shared
machine runs scatter by about 0.15 forwards. The authors' own code for the paper's method takes 12
to 14 forwards.

{table}

Measured with torch {torch.__version__}, transformers {transformers.__version__}, Python
{platform.python_version()}, on two cores of {processor()}.
"""


def processor() -> str:
    """What the system calls it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


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
    _, heading, others = (HERE / "README.md").read_text().partition("\n## ")
    text += heading + others
    partial = HERE / "README.md.partial"
    partial.write_text(text)
    partial.replace(HERE / "README.md")


if __name__ == "__main__":
    main()
