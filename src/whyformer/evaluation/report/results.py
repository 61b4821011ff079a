"""From a run's records to its figures, with intervals and tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb

import numpy as np

from whyformer.errors import InputError
from whyformer.evaluation.report.estimates import Difference, Estimate, Resampled, holm
from whyformer.evaluation.tasks.task import Measure, Record
from whyformer.provenance import digest_of

#: p-values below this count as a difference
LEVEL = 0.05

Places = dict[tuple[str, Measure], slice]


@dataclass(frozen=True)
class Comparison:
    """The best method of a column against another; ``p`` is corrected for all pairs of it."""

    measure: Measure
    best: str
    other: str
    difference: Difference
    p: float

    @property
    def is_significant(self) -> bool:
        return self.p < LEVEL


@dataclass(frozen=True)
class Result:
    """A benchmark's figures by method and measure, and the tests between the methods.

    ``facts`` say what was measured on what; ``failures`` are the samples that could not be, with
    the reason; ``flat`` counts each method's maps without any differences; ``tied`` is the mean
    share, in percent, of pixels or words that chance orders because others are as relevant;
    ``cost`` is the median time of an explanation, in forwards of the model; ``published`` are the
    paper's figures where model and data are the paper's.
    """

    benchmark: str
    methods: list[str]
    measures: list[Measure]
    estimates: dict[tuple[str, Measure], Estimate]
    comparisons: list[Comparison]
    samples: int
    failures: dict[str, str]
    flat: dict[str, int]
    facts: Record = field(default_factory=dict)
    tied: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    published: dict[tuple[str, Measure], float] = field(default_factory=dict)

    def having(self, measure: Measure) -> list[str]:
        """The methods that have such a figure."""
        return [method for method in self.methods if (method, measure) in self.estimates]

    def best(self, measure: Measure) -> str:
        values = {method: self.estimates[method, measure].value for method in self.having(measure)}
        return (min if measure.less_is_better else max)(values, key=values.__getitem__)

    def as_good(self, measure: Measure) -> list[str]:
        """The best method of a column, and those that are not significantly different."""
        worse = {c.other for c in self.comparisons if c.measure is measure and c.is_significant}
        return [method for method in self.having(measure) if method not in worse]

    def __str__(self) -> str:
        """The summary and the tables, as the command line prints them."""
        from whyformer.evaluation.report.tables import to_text

        return to_text(self)

    @property
    def summary(self) -> str:
        """What was measured, in one sentence."""
        said = (
            f"{self.benchmark}: {self.facts['model']} on {self.facts['data']}, {self.samples} "
            f"samples, preset {self.facts['preset']}"
        )
        if self.facts.get("grain") == "patches":
            said += ", all maps of patches"
        if self.failures:
            key, reason = next(iter(self.failures.items()))
            said += f"; {len(self.failures)} could not be measured (the first, {key}: {reason})"
        if self.flat:
            counted = ", ".join(f"{method} {count}" for method, count in self.flat.items())
            said += f"; maps without any differences: {counted}"
        tied = {method: share for method, share in self.tied.items() if share >= 1}
        if tied:
            counted = ", ".join(f"{method} {share:.0f} %" for method, share in tied.items())
            said += f"; in random order, because equally relevant: {counted}"
        if "notes" in self.facts:
            said += f"; {self.facts['notes']}"
        return said


class Numbers:
    """One method's numbers of all samples, filled in record by record."""

    def __init__(self, measures: Sequence[Measure], keys: Sequence[str]) -> None:
        self._measures, self._keys = measures, keys
        self.places: dict[Measure, slice] = {}
        self.values = np.empty((len(keys), 0))
        self.flat = np.zeros(len(keys), bool)
        self.tied = np.zeros(len(keys))
        self.forwards = np.full(len(keys), np.nan)

    def add(self, row: int, record: Record) -> None:
        found = [measure.numbers(record) for measure in self._measures]
        if not self.places:
            self._lay_out(found)
        parts = [part for part in found if part is not None]
        self.values[row] = np.concatenate(parts)
        self.flat[row] = record.get("flat", False)
        self.tied[row] = record.get("tied", 0)
        self.forwards[row] = record.get("forwards", np.nan)

    def cost(self, whole: np.ndarray) -> float | None:
        """The median over the samples whose time was taken."""
        timed = self.forwards[whole & ~np.isnan(self.forwards)]
        return float(np.median(timed)) if len(timed) else None

    def _lay_out(self, found: Sequence[Sequence[float] | None]) -> None:
        width = 0
        for measure, part in zip(self._measures, found, strict=True):
            if part is not None:
                self.places[measure] = slice(width, width + len(part))
                width += len(part)
        self.values = np.full((len(self._keys), width), np.nan)

    @property
    def measured(self) -> np.ndarray:
        if not self.places:
            return np.zeros(len(self._keys), bool)
        return np.asarray(~np.isnan(self.values).any(1))


def make_result(
    benchmark: str,
    measures: list[Measure],
    methods: Sequence[str],
    keys: Sequence[str],
    records: Iterable[Record],
    facts: Record,
) -> Result:
    """Figures over the samples that every method was measured on: all on the same footing."""
    numbers = {method: Numbers(measures, keys) for method in methods}
    reasons = read_records(numbers, keys, records)
    whole = np.all([numbers[method].measured for method in methods], axis=0)
    failures = {
        key: explain_failure(reasons.get(key, {}), methods)
        for key, good in zip(keys, whole, strict=True)
        if not good
    }
    if not whole.any():
        raise InputError(f"no sample could be measured; the first: {next(iter(failures.values()))}")
    places: Places = {}
    width = 0
    for method in methods:
        for measure, place in numbers[method].places.items():
            places[method, measure] = slice(width + place.start, width + place.stop)
        width += numbers[method].values.shape[1]
    values = np.concatenate([numbers[m].values[whole] for m in methods], axis=1)
    resampled = Resampled(values, comb(len(methods), 2))
    flat = {method: int(numbers[method].flat[whole].sum()) for method in methods}
    tied = {method: float(100 * numbers[method].tied[whole].mean()) for method in methods}
    costs = {method: numbers[method].cost(whole) for method in methods}
    result = Result(
        benchmark,
        list(methods),
        measures,
        {key: resampled.estimate(place, key[1].figure) for key, place in places.items()},
        [],
        int(whole.sum()),
        failures,
        {method: count for method, count in flat.items() if count},
        facts,
        {method: share for method, share in tied.items() if share},
        {method: cost for method, cost in costs.items() if cost is not None},
    )
    for measure in measures:
        if measure.table is not None and result.having(measure):
            result.comparisons.extend(compare(result, measure, resampled, places))
    return result


def read_records(
    numbers: dict[str, Numbers], keys: Sequence[str], records: Iterable[Record]
) -> dict[str, dict[str, str]]:
    """Fill in what was measured by today's code; returns why samples failed, by method."""
    codes = {method: digest_of(method) for method in numbers}
    rows = {key: i for i, key in enumerate(keys)}
    reasons: dict[str, dict[str, str]] = {}
    for record in records:
        key, method = record["key"], record["method"]
        if codes.get(method) != record["code"] or key not in rows:
            continue
        if "error" in record:
            reasons.setdefault(key, {})[method] = record["error"]
        else:
            numbers[method].add(rows[key], record)
    return reasons


def explain_failure(reasons: dict[str, str], methods: Sequence[str]) -> str:
    """The sample's own reason, or the first method's that failed on it."""
    if not reasons:
        return "not measured; on several machines the run's folder must be one that all share"
    method, reason = next(iter(reasons.items()))
    alike = len(reasons) == len(methods) and len(set(reasons.values())) == 1
    return reason if alike else f"{method}: {reason}"


def compare(
    result: Result, measure: Measure, resampled: Resampled, places: Places
) -> list[Comparison]:
    """The best against every other, on the same samples; p-values of all pairs are corrected."""
    pairs = list(combinations(result.having(measure), 2))
    found = [
        resampled.difference(places[one, measure], places[other, measure], measure.figure)
        for one, other in pairs
    ]
    corrected = dict(zip(pairs, holm([difference.p for difference in found]), strict=True))
    best = result.best(measure)
    comparisons = []
    for other in result.having(measure):
        if other != best:
            difference = resampled.difference(
                places[best, measure], places[other, measure], measure.figure
            )
            p = corrected.get((best, other), corrected.get((other, best), 1.0))
            comparisons.append(Comparison(measure, best, other, difference, p))
    return comparisons
