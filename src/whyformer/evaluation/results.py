"""From a run's records to its figures, with intervals and tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from whyformer.errors import InputError
from whyformer.evaluation.cache import code_of
from whyformer.evaluation.estimates import Bootstrap, Difference, Estimate, holm
from whyformer.evaluation.task import Measure, Record

#: p-values below this count as a difference
LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """The best method of a column against another; ``p`` is corrected for all others of it."""

    measure: Measure
    best: str
    other: str
    difference: Difference
    p: float

    @property
    def tells_apart(self) -> bool:
        return self.p < LEVEL


@dataclass(frozen=True)
class Result:
    """A benchmark's figures by method and measure, and the tests between the methods.

    ``facts`` say what was measured on what; ``failures`` are the samples that could not be, with
    the reason; ``published`` are the paper's figures where model and data are the paper's.
    """

    benchmark: str
    methods: list[str]
    measures: list[Measure]
    estimates: dict[tuple[str, Measure], Estimate]
    comparisons: list[Comparison]
    samples: int
    failures: dict[str, str]
    facts: Record = field(default_factory=dict)
    published: dict[tuple[str, Measure], float] = field(default_factory=dict)

    def having(self, measure: Measure) -> list[str]:
        """The methods that have such a figure."""
        return [method for method in self.methods if (method, measure) in self.estimates]

    def best(self, measure: Measure) -> str:
        values = {method: self.estimates[method, measure].value for method in self.having(measure)}
        return (min if measure.less_is_better else max)(values, key=values.__getitem__)

    def as_good(self, measure: Measure) -> list[str]:
        """The best method of a column, and those that the samples do not tell from it."""
        worse = {c.other for c in self.comparisons if c.measure is measure and c.tells_apart}
        return [method for method in self.having(measure) if method not in worse]

    @property
    def summary(self) -> str:
        """What was measured, in one sentence."""
        said = (
            f"{self.benchmark}: {self.facts['model']} on {self.facts['data']}, {self.samples} "
            f"samples, preset {self.facts['preset']}"
        )
        if self.failures:
            key, reason = next(iter(self.failures.items()))
            said += f"; {len(self.failures)} could not be measured (the first, {key}: {reason})"
        if "notes" in self.facts:
            said += f"; {self.facts['notes']}"
        return said


def make_result(
    benchmark: str,
    measures: list[Measure],
    methods: Sequence[str],
    keys: Sequence[str],
    records: Iterable[Record],
    facts: Record,
) -> Result:
    """Figures over the samples that every method was measured on: all on the same footing."""
    numbers, reasons = read_numbers(measures, methods, records)
    whole = [key for key in keys if all(key in numbers[method] for method in methods)]
    measured = set(whole)
    failures = {key: reasons.get(key, "not measured") for key in keys if key not in measured}
    if not whole:
        raise InputError(f"no sample could be measured; the first: {next(iter(failures.values()))}")

    places: dict[tuple[str, Measure], slice] = {}
    columns: list[np.ndarray] = []
    width = 0
    for method in methods:
        for i, measure in enumerate(measures):
            if numbers[method][whole[0]][i] is not None:
                column = np.array([numbers[method][key][i] for key in whole], float)
                places[method, measure] = slice(width, width + column.shape[1])
                width += column.shape[1]
                columns.append(column)
    bootstrap = Bootstrap(np.concatenate(columns, axis=1))
    result = Result(
        benchmark,
        list(methods),
        measures,
        {
            (method, measure): bootstrap.estimate(place, measure.figure)
            for (method, measure), place in places.items()
        },
        [],
        len(whole),
        failures,
        facts,
    )
    for measure in measures:
        if measure.table is not None:
            result.comparisons.extend(compare(result, measure, bootstrap, places))
    return result


def read_numbers(
    measures: Sequence[Measure], methods: Sequence[str], records: Iterable[Record]
) -> tuple[dict[str, dict[str, list[np.ndarray | None]]], dict[str, str]]:
    """Each method's numbers by sample, a record at a time; and why samples failed."""
    codes = {method: code_of(method) for method in methods}
    numbers: dict[str, dict[str, list[np.ndarray | None]]] = {method: {} for method in methods}
    reasons: dict[str, str] = {}
    for record in records:
        method = record["method"]
        if codes.get(method) != record["code"]:
            continue
        if "error" in record:
            reasons[record["key"]] = record["error"]
            continue
        found = [measure.numbers(record) for measure in measures]
        numbers[method][record["key"]] = [
            None if values is None else np.array(values, float) for values in found
        ]
    return numbers, reasons


def compare(
    result: Result,
    measure: Measure,
    bootstrap: Bootstrap,
    places: dict[tuple[str, Measure], slice],
) -> list[Comparison]:
    """The best against every other, on the same samples."""
    if not result.having(measure):
        return []
    best = result.best(measure)
    others = [method for method in result.having(measure) if method != best]
    differences = [
        bootstrap.difference(places[best, measure], places[other, measure], measure.figure)
        for other in others
    ]
    corrected = holm([difference.p for difference in differences])
    return [
        Comparison(measure, best, other, difference, p)
        for other, difference, p in zip(others, differences, corrected, strict=True)
    ]
