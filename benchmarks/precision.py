"""What `precision="fast"` costs in agreement: `precision.py --model DIR --data DIR`.

On the same photos: how far the maps correlate with those of the model in float64, and what the
segmentation and perturbation benchmarks say of full and of fast maps, each with the interval of
the full one, which the fast figure should not leave. The data is a folder of photos with masks, as
`whyformer evaluate segmentation --data` reads it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import torch

import whyformer
from whyformer.evaluation import evaluate
from whyformer.evaluation.report.results import Result
from whyformer.methods import get_method
from whyformer.methods.question import Answer, Question

METHODS = ("transformer_attribution", "witness")


def fast(name: str) -> str:
    """A method that asks another with fast products, and its name."""

    def answer(question: Question) -> Answer:
        question.trace = question.trace.faster()
        found: Answer = get_method(name)(question)
        return found

    whyformer.register(f"{name}_fast", f"{name}, products in bfloat16")(answer)
    return f"{name}_fast"


def correlations(model: str, photos: list[Path], method: str) -> list[float]:
    """Fast maps against those of the same model in float64, photo by photo."""
    why, wide = whyformer.load(model), whyformer.load(model)
    wide.model.double()
    found = []
    for photo in photos:
        one = why(photo, method=method, precision="fast", matrix=False).relevance[:, 1:]
        other = wide(photo, method=method, matrix=False).relevance[:, 1:]
        found.append(float(torch.corrcoef(torch.cat([one.double(), other]))[0, 1]))
    return sorted(found)


def figures(result: Result, full: str, quick: str) -> list[str]:
    rows = []
    for measure in result.measures:
        if measure.table is None or (full, measure) not in result.estimates:
            continue
        one, other = result.estimates[full, measure], result.estimates[quick, measure]
        inside = "yes" if one.low <= other.value <= one.high else "no"
        rows.append(
            f"| `{full}` | {result.benchmark}, {measure.column} | {one.value:.2f} "
            f"({one.low:.2f} to {one.high:.2f}) | {other.value:.2f} | {inside} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--limit", type=int, default=24)
    options = parser.parse_args()
    photos = sorted((options.data / "images").iterdir())[: options.limit]
    for method in METHODS:
        found = correlations(options.model, photos, method)
        print(
            f"| `{method}` | {len(found)} | {median(found):.5f} | {found[0]:.5f} |",
            flush=True,
        )
    print()
    pairs = {method: fast(method) for method in METHODS}
    why = whyformer.load(options.model)
    for benchmark in ("segmentation", "perturbation"):
        with tempfile.TemporaryDirectory() as out:
            result = evaluate(
                benchmark, why, options.data, methods=[*pairs, *pairs.values()],
                limit=options.limit, out=out, progress=False,
            )  # fmt: skip
        assert result is not None
        for full, quick in pairs.items():
            print("\n".join(figures(result, full, quick)), flush=True)


if __name__ == "__main__":
    main()
