"""Make `docs/benchmarks.md` and its plots from the results of the suites: `python -m benchmarks.suites.page`.

The program uses only the JSON files in `results`, so each run makes the same page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.suites import plots, results
from benchmarks.suites.cases import Case, median, ratio, sides_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURES = "_static/benchmarks"
INTRODUCTION = """\
# Benchmarks

This page shows two standard benchmarks: the merge suite of Delta Lake, and LHBench. They run this package,
delta-spark and delta-rs on the same tables of one machine. `make bench-suites` measures, and makes this page from the
results in `benchmarks/suites/results`. Measure on your machine before you decide:

```console
$ make bench-suites
$ make bench-suites SCALE=0.1 SUITES="merge load"
```

The first command runs all suites with the scale factor 1 of TPC-DS, which takes {minutes:.0f} minutes on the machine
below. The second command runs two suites on a tenth of the data.

All suites measure in the same way:

- This package and delta-spark use the same Spark session, which is already running, on `local[2]` with 4 GB. delta-rs
  runs in the same Python process. The times include opening the table.
- The sides run in turns. The first round does not count. A time is the median of the other rounds, in seconds, with
  the minimum and the maximum in brackets.
- A ratio is the time of this package divided by the time of the other side. Below 1, this package is faster.
- After each case, the suite compares the tables or rows of all sides. It stops if they differ.
- The session has 4 tasks for each shuffle, and delta-spark has 4 tasks for its snapshots, because the machine has few
  cores. All other settings are defaults. Tables have no deletion vectors unless the case says so.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The part of the page about one suite. `draw` makes its plot, and `plot_title` says what the plot shows."""

    suite: str
    title: str
    text: str
    draw: Callable[[Sequence[Case], Path], None]
    plot_title: str


SECTIONS = (
    Section(
        suite="merge",
        title="Merge suite of Delta Lake",
        text="""\
The [merge suite](https://github.com/delta-io/delta/tree/master/benchmarks) of Delta Lake merges 16 sources into the
table `web_returns` of TPC-DS. The table has 20 files. Each source has rows from some of the files. The first percentage
is the share of these files. The other percentages are matched rows and new rows, as a share of the rows in these files.
A merge of the group "two inserts" has two clauses for new rows.""",
        draw=plots.ratio_bars,
        plot_title="Ratio of each merge",
    ),
)


def write_page(docs: Path) -> None:
    """Write the page and its plots below the folder of the documentation."""
    sections = [(section, result) for section in SECTIONS if (result := results.load(section.suite)) is not None]
    (docs / PICTURES).mkdir(parents=True, exist_ok=True)
    parts = [INTRODUCTION.format(minutes=sum(result.minutes for _, result in sections))]
    for section, result in sections:
        section.draw(result.cases, docs / PICTURES / f"{section.suite}.svg")
        plot = f"![{section.plot_title}]({PICTURES}/{section.suite}.svg)"
        parts.append("\n\n".join([f"## {section.title}", section.text, conditions(result), plot, table(result.cases)]))
    (docs / "benchmarks.md").write_text("\n".join(f"{part.rstrip()}\n" for part in parts), encoding="utf-8")


def conditions(result: results.Result) -> str:
    """Return the sentences about the run: date, scale, rounds, machine and versions."""
    machine = result.machine
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return (
        f"Measured on {result.date} with scale factor {result.scale:g} and {result.rounds} rounds, in "
        f"{max(result.minutes, 1):.0f} minutes.\n"
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB of memory.\n"
        f"Versions: {versions}."
    )


def table(cases: Sequence[Case]) -> str:
    """Return the table of the times and ratios."""
    sides = sides_of(cases)
    names = ["this package", *sides[1:]]
    header = ["", "case", *names, *(f"ratio to {peer}" for peer in sides[1:])]
    rows = [
        [
            case.group,
            case.name,
            *(_time(case.seconds.get(side)) for side in sides),
            *(f"{ratio(case, peer):.2f}" if peer in case.seconds else "" for peer in sides[1:]),
        ]
        for case in cases
    ]
    separator = ["---", "---", *("---:" for _ in header[2:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, separator, *rows])


def _time(seconds: Sequence[float] | None) -> str:
    """Return the median with its spread. The text is empty if the side does not take part."""
    if seconds is None:
        return ""
    return f"{_digits(median(seconds))} ({_digits(min(seconds))} to {_digits(max(seconds))})"


def _digits(seconds: float) -> str:
    """Return seconds with about three digits."""
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}"


if __name__ == "__main__":
    write_page(DOCS)
