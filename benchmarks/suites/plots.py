"""The plots of the benchmarks: ratio bars, growth curves and stacked bars.

The SVG files of the same results are the same in each run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from benchmarks.suites.cases import SIDES, Case, by_group, median, ratio, sides_of

COLOURS = dict(zip(SIDES, ("#1f77b4", "#d62728", "#ff9896", "#2ca02c"), strict=True))
_SETTINGS = {
    "svg.hashsalt": "benchmarks",  # without it, the ids in the file would be random
    "svg.fonttype": "none",  # text stays text, which keeps the file small
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def ratio_bars(cases: Sequence[Case], path: Path) -> None:
    """Draw a bar for each case and peer, from 1 to the time of this package divided by that of the peer."""
    peers = sides_of(cases)[1:]
    height = 0.8 / len(peers)
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(8, 1.2 + 0.36 * len(cases)), layout="constrained")
        axes = figure.subplots()
        for number, peer in enumerate(peers):
            rows = [row for row, case in enumerate(cases) if peer in case.seconds]
            lengths = [ratio(cases[row], peer) - 1 for row in rows]
            places = [row + number * height for row in rows]
            axes.barh(places, lengths, height, left=1, color=COLOURS[peer], label=peer)
        axes.axvline(1, color="black", linewidth=0.8)
        _use_decades(axes.xaxis, [ratio(case, peer) for case in cases for peer in peers if peer in case.seconds])
        axes.set_yticks(
            [row + height * (len(peers) - 1) / 2 for row in range(len(cases))],
            [f"{case.group}: {case.name}" for case in cases],
        )
        axes.invert_yaxis()
        axes.set_xlabel("time of this package / time of the peer (below 1: this package is faster)")
        figure.legend(loc="outside upper right", ncols=len(peers), frameon=False)
        _save(figure, path)


def growth_curves(cases: Sequence[Case], path: Path, *, axis: str) -> None:
    """Draw a curve for each side in one plot for each group: medians over sizes, with bars from minimum to maximum."""
    groups = by_group(cases)
    sides = sides_of(cases)
    with mpl.rc_context(_SETTINGS):
        rows = (len(groups) + 1) // 2
        figure = Figure(figsize=(8, 0.6 + 2.6 * rows), layout="constrained")
        plots = figure.subplots(rows, min(2, len(groups)), squeeze=False).flat
        for axes, (group, group_cases) in zip(plots, groups.items(), strict=False):
            for side in sides:
                points = [(case.size, case.seconds[side]) for case in group_cases if side in case.seconds]
                middles = [median(seconds) for _, seconds in points]
                spread = [
                    [middle - min(seconds) for middle, (_, seconds) in zip(middles, points, strict=True)],
                    [max(seconds) - middle for middle, (_, seconds) in zip(middles, points, strict=True)],
                ]
                label = side if axes is figure.axes[0] else None
                axes.errorbar(
                    [size for size, _ in points],
                    middles,
                    yerr=spread,
                    color=COLOURS[side],
                    marker="o",
                    markersize=4,
                    capsize=2,
                    label=label,
                )
            axes.set(title=group, xscale="log", xlabel=axis, ylabel="seconds")
            axes.xaxis.set_major_formatter("{x:g}")
            all_seconds = [case.seconds[side] for case in group_cases for side in case.seconds]
            _use_decades(axes.yaxis, [time for seconds in all_seconds for time in seconds])
        for axes in figure.axes[len(groups) :]:
            axes.set_axis_off()
        figure.legend(loc="outside upper right", ncols=len(sides), frameon=False)
        _save(figure, path)


def stacked_bars(rows: Mapping[str, Mapping[str, float]], labels: Mapping[str, str], path: Path) -> None:
    """Draw a bar for each row: its parts one after the other, in the order of `labels`, with their seconds."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(8, 1.4 + 0.6 * len(rows)), layout="constrained")
        axes = figure.subplots()
        for number, (part, label) in enumerate(labels.items()):
            seconds = [parts.get(part, 0.0) for parts in rows.values()]
            starts = [sum(parts.get(earlier, 0.0) for earlier in list(labels)[:number]) for parts in rows.values()]
            bars = axes.barh(list(rows), seconds, left=starts, label=label, color=mpl.colormaps["tab20"](number))
            axes.bar_label(bars, [f"{length:.1f}" if length >= 0.25 else "" for length in seconds], label_type="center")
        axes.invert_yaxis()
        axes.set_xlabel("seconds")
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
        _save(figure, path)


def _use_decades(axis: Axis, values: Sequence[float]) -> None:
    """Give an axis a logarithmic scale of whole decades, with plain numbers."""
    name = axis.axis_name
    bounds = (10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values))))
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": bounds})
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _save(figure: Figure, path: Path) -> None:
    """Write the SVG file without a date, and without spaces at the ends of lines."""
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")
