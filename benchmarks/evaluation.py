"""What a perturbation evaluation costs beside its forwards and explanations, and its memory.

    python benchmarks/evaluation.py                      embedded model and scenes
    python benchmarks/evaluation.py --model DIR --data FOLDER --limit 40
    python benchmarks/evaluation.py --memory 10000       resident memory over so many scenes

Ratios within one run; seconds mean nothing on another machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

import whyformer
from whyformer.evaluation import evaluate
from whyformer.evaluation.data.samples import ImageSample, Scenes, open_images
from whyformer.evaluation.tasks.perturbation import SHARES
from whyformer.evaluation.tasks.pictures import logits_of
from whyformer.methods import DEFAULT_METHOD


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="demo-vision")
    parser.add_argument("--data")
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, metavar="SCENES")
    options = parser.parse_args()
    why = whyformer.load(options.model)
    if options.memory:
        measure_memory(why, options.memory)
    else:
        measure_time(why, open_images(options.data, 1, why.labels, options.limit), options.rounds)


def measure_time(why: Any, samples: Any, rounds: int) -> None:
    timed = [(*whole_run(why, samples), bare_work(why, samples)) for _ in range(rounds)]
    for whole, report, bare in timed:
        print(
            f"evaluation {whole:.2f} s, of these {report:.2f} s for the report; "
            f"its forwards and explanations alone {bare:.2f} s"
        )
    all_of_it = statistics.median(whole / bare for whole, _, bare in timed)
    measuring = statistics.median((whole - report) / bare for whole, report, bare in timed)
    print(
        f"{len(samples)} samples, {DEFAULT_METHOD}: measuring {measuring:.3f} times, with the "
        f"report {all_of_it:.3f} times (medians of {rounds})"
    )


def whole_run(why: Any, samples: Any) -> tuple[float, float]:
    """Seconds of an evaluation, and of its report alone: a second start finds all measured."""
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            began = time.perf_counter()
            evaluate(
                "perturbation", why, samples, methods=[DEFAULT_METHOD], out=folder, progress=False
            )
            times.append(time.perf_counter() - began)
    return times[0], times[1]


def bare_work(why: Any, samples: Any) -> float:
    """Forwards and explanations alone, on pictures that are in memory already.

    The model's own forward, which costs are told by; recording, explaining, and the perturbed
    forwards for each class that is asked about.
    """
    given = [(why.read(samples[i].image), samples[i].label) for i in range(len(samples))]
    spent = 0.0
    for picture, label in given:
        began = time.perf_counter()
        logits_of(why, picture)
        recorded = why.record_picture(picture)
        for target in {int(recorded.logits.argmax()), label}:
            recorded.explain(target, matrix=False)
            logits_of(why, picture.expand(2 * len(SHARES), -1, -1, -1))
        spent += time.perf_counter() - began
    return spent


class Watched(Scenes):
    """Scenes that note the process's memory on the way."""

    def __init__(self, length: int) -> None:
        super().__init__(1, length)
        self.seen: dict[int, float] = {}

    def __getitem__(self, index: int) -> ImageSample:
        if index % (len(self) // 10) == 0:
            self.seen[index] = psutil.Process().memory_info().rss / 1e6
        return super().__getitem__(index)


def measure_memory(why: Any, count: int) -> None:
    scenes = Watched(count)
    with tempfile.TemporaryDirectory() as folder:
        evaluate("segmentation", why, scenes, methods=["raw_attention"], out=Path(folder) / "run")
    for index, megabytes in sorted(scenes.seen.items()):
        print(f"{index:>6} scenes: {megabytes:.0f} MB")
    print(f"at the end, with the report: {psutil.Process().memory_info().rss / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
