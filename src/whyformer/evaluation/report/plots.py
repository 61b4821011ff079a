"""Results as pictures: curves, and bars with their intervals."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Any

from whyformer.evaluation.report.results import Result
from whyformer.evaluation.report.tables import Table, tables_of
from whyformer.evaluation.tasks.task import Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
#: the method first and strongest; colours that stay apart for colour-blind readers
COLOURS = (
    "#6d2a8c", "#0f766e", "#1d4ed8", "#c2410c", "#a16207", "#be185d", "#475569", "#65a30d",
    "#0891b2", "#92400e", "#6b7280",
)  # fmt: skip
MARKERS = "osD^vP*X<>"
#: labels of a legend that stand beside a figure; more stand below it, in columns
BESIDE = 12
#: there, in inches: a line's height, the room of a label's mark, and of a letter
LINE, HANDLE, LETTER = 0.18, 0.55, 0.068
LINES = ("-", "--", "-.", ":")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "legend.frameon": False,
    "svg.hashsalt": "whyformer",
    "svg.fonttype": "none",
    "savefig.dpi": 160,
}


def has_plots() -> bool:
    """Whether matplotlib, an optional part of the installation, is there."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def plots_of(result: Result) -> dict[str, dict[str, bytes]]:
    """Every plot of a benchmark by its name, as PNG and SVG."""
    drawn: dict[str, Callable[[], Figure]] = {}
    if result.benchmark == "rationales":
        drawn["token-f1"] = partial(f1_curves, result)
    else:
        for i, table in enumerate(tables_of(result), 1):
            name = result.benchmark if i == 1 else f"{result.benchmark}-{i}"
            drawn[name] = partial(bars, table)
    for which in ("predicted", "target"):
        setting = f"positive_{which}"
        if any(m.path[0] == setting and result.having(m) for m in result.measures):
            drawn[f"curves-{which}"] = partial(removal_curves, result, which)
    if any(m.path[0] == "randomised" for m in result.measures):
        drawn["curves-randomised"] = partial(forgetting_curves, result)
    if result.cost:
        drawn["cost"] = partial(quality_and_cost, result)
    return {name: _saved(draw) for name, draw in drawn.items()}


def removal_curves(result: Result, which: str) -> Figure:
    """Accuracy while pixels go: the most relevant first, and the least relevant first."""
    figure, axes = _figure(2, 4.2, 3.6, sharey=True)
    titles = {
        "positive": "most relevant first (low is good)",
        "negative": "least relevant first (high is good)",
    }
    for axis, (direction, title) in zip(axes, titles.items(), strict=True):
        _curves(axis, result, (f"{direction}_{which}", "curve"), scale=100)
        axis.set(title=title, xlabel="pixels removed (%)", ylim=(0, None))
    axes[0].set_ylabel(f"accuracy (%), {which} class explained")
    _legend(figure, axes[0])
    return figure


def f1_curves(result: Result) -> Figure:
    figure, (axis,) = _figure(1, 5.6, 3.8)
    _curves(axis, result, ("token_f1",))
    axis.set(xlabel="words in the rationale", ylabel="token-F1 (%)", ylim=(0, None))
    _legend(figure, axis)
    return figure


def forgetting_curves(result: Result) -> Figure:
    """How much of the trained model's map is left while blocks lose their weights."""
    figure, (axis,) = _figure(1, 5.6, 3.8)
    _curves(axis, result, ("randomised", "curve"), scale=100)
    axis.set(
        title="low is good",
        xlabel="blocks with random weights, from the output down (%)",
        ylabel="rank correlation with the map (%)",
        ylim=(0, None),
    )
    _legend(figure, axis)
    return figure


def bars(table: Table) -> Figure:
    """A panel for each column: the figure of every method and its interval."""
    result, measures = table.result, table.measures
    height = 0.9 + 0.26 * len(result.methods)
    figure, axes = _figure(len(measures), 2.6, height, sharey=True)
    for axis, measure in zip(axes, measures, strict=True):
        for place, method in enumerate(result.methods):
            if method not in result.having(measure):
                continue
            e = result.estimates[method, measure]
            best = method in result.as_good(measure)
            axis.barh(place, e.value, color=COLOURS[0] if best else "#94a3b8", height=0.66)
            axis.plot([e.low, e.high], [place, place], color="#111827", linewidth=1)
        better = "low is good" if measure.less_is_better else "high is good"
        axis.set_title(f"{measure.column}\n({better})")
        axis.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(result.methods)), result.methods)
    axes[0].invert_yaxis()
    figure.supxlabel(
        "coloured: the best, and what is not significantly different; lines: 95 % intervals",
        fontsize=8,
        color="#6b7280",
    )
    return figure


def quality_and_cost(result: Result) -> Figure:
    """Each method's figures over the time that it takes, in forwards of the model.

    A line leads along the methods that are better than all that take no longer.
    """
    from matplotlib.ticker import LogLocator

    table = min(tables_of(result), key=lambda table: len(table.measures))
    figure, axes = _figure(len(table.measures), 3.2, 3.4)
    for axis, measure in zip(axes, table.measures, strict=True):
        for i, method in enumerate(result.methods):
            if method not in result.having(measure) or method not in result.cost:
                continue
            e, cost, colour = result.estimates[method, measure], result.cost[method], COLOURS
            axis.plot([cost, cost], [e.low, e.high], color=colour[i % len(colour)], linewidth=1)
            axis.plot(
                [cost],
                [e.value],
                MARKERS[i % len(MARKERS)],
                color=colour[i % len(colour)],
                label=method,
            )
        if front := _front(result, measure):
            label = "the best for the cost"
            axis.step(
                *zip(*front, strict=True), where="post", color="#d1d5db", zorder=0, label=label
            )
        better = "low is good" if measure.less_is_better else "high is good"
        axis.set(title=f"{measure.column} ({better})", xscale="log", xlabel="cost (forwards)")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter("")
    _legend(figure, *axes)
    return figure


def _front(result: Result, measure: Measure) -> list[tuple[float, float]]:
    """The best figure that each method's cost buys, cheapest first."""
    sign = -1 if measure.less_is_better else 1
    figures = sorted(
        (result.cost[method], -sign * result.estimates[method, measure].value)
        for method in result.having(measure)
        if method in result.cost
    )
    best = list(accumulate((value for _, value in figures), min))
    return [(cost, -sign * value) for (cost, _), value in zip(figures, best, strict=True)]


def _curves(axis: Axes, result: Result, prefix: tuple[str, ...], scale: float = 1) -> None:
    measures = [m for m in result.measures if m.path[: len(prefix)] == prefix]
    x = [scale * float(measure.path[-1]) for measure in measures]
    for i, method in enumerate(result.methods):
        if method in result.having(measures[0]):
            y = [result.estimates[method, measure].value for measure in measures]
            axis.plot(
                x,
                y,
                label=method,
                color=COLOURS[i % len(COLOURS)],
                linestyle=LINES[i % len(LINES)],
                linewidth=2.2 if i == 0 else 1.3,
            )


def _figure(
    panels: int, width: float, height: float, **options: Any
) -> tuple[Figure, Sequence[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.8 + width * panels, height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, **options)
    return figure, list(axes[0])


def _legend(figure: Figure, *axes: Axes) -> None:
    """Every label once, of all panels; many stand below them, where the figure gets longer."""
    found = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    place: dict[str, Any] = {"loc": "outside right upper"}
    if len(found) > BESIDE:
        wide = HANDLE + LETTER * max(map(len, found))
        columns = max(1, int(figure.get_figwidth() / wide))
        figure.set_figheight(figure.get_figheight() + LINE * (ceil(len(found) / columns) + 1))
        place = {"loc": "outside lower center", "ncols": columns, "fontsize": 8}
    figure.legend(list(found.values()), list(found), **place)


def _saved(draw: Callable[[], Figure]) -> dict[str, bytes]:
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure = draw()
        found = {}
        for kind in FORMATS:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
            found[kind] = buffer.getvalue()
    return found
