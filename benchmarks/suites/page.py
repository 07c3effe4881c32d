"""Make `docs/benchmarks.md` and its plots from the results of the suites: `python -m benchmarks.suites.page`.

The program uses only the JSON files in `results`, so each run makes the same page.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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

The first command runs all suites with the scale factor 1 of TPC-DS. The second command runs two suites on a tenth of
the data. The runs on this page took {duration} together.

All suites measure in the same way:

- This package and delta-spark use the same Spark session, which is already running, on `local[2]` with 4 GB. delta-rs
  runs in the same Python process. The times include opening the table.
- The sides run in turns. The first round does not count. A time is the median of the other rounds, in seconds, with
  the minimum and the maximum in brackets.
- A ratio is the time of this package divided by the time of the other side. Below 1, this package is faster.
- After each case, the suite compares the tables or rows of all sides. It stops if they differ.
- The load average before a run shows whether other processes used the machine. If it is above 0, all times are longer,
  and they vary more.
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
table `web_returns` of TPC-DS. The table has 20 files. Each source has rows from some of the files. The first
percentage is the share of these files. The other percentages are matched rows and new rows, as a share of the rows in
these files. A merge of the group "two inserts" has two clauses for new rows.""",
        draw=plots.ratio_bars,
        plot_title="Ratio of each merge",
    ),
    Section(
        suite="load",
        title="LHBench: load",
        text="""\
Each side creates a Delta table from the Parquet file of a table of TPC-DS.""",
        draw=plots.ratio_bars,
        plot_title="Ratio of each load",
    ),
    Section(
        suite="refresh",
        title="LHBench: queries before and after merges",
        text="""\
Each side runs five queries of TPC-DS, merges ten sources into `store_sales`, and runs the queries again. Each source
has 3% of the rows of the table. Half of them are new, and the others change rows that are spread over 16 files. Spark
runs the queries of this package and of delta-spark. DataFusion runs those of delta-rs. Each side reads the logs again
for each query, as in a new job. delta-spark needs less time with the snapshots in memory. The merges are the rounds
of one case. LHBench loads the refresh data of TPC-DS instead.""",
        draw=plots.ratio_bars,
        plot_title="Ratio of each query, and of the merges",
    ),
    Section(
        suite="many_files",
        title="LHBench: many files",
        text="""\
Each file of the table is a partition, has 100 rows, and has values of `ss_item_sk` that no other file has. The log
has a checkpoint. delta-spark takes part twice. "delta-spark" reads the log again for each query, as in a new job.
"delta-spark, warm" has the snapshot in memory. This package gets the condition of a filter as `where` of
`deltalite.spark.read`, because it must list the files before Spark plans the query.""",
        draw=partial(plots.growth_curves, axis="files"),
        plot_title="Seconds of each query, by number of files",
    ),
    Section(
        suite="micro_merges",
        title="LHBench: micro merges",
        text="""\
The table has four columns, 16 files and 10,000,000 rows at scale 1. A source has 0.0001% to 0.1% of these rows. Half
of its rows are new, and the others change rows that are spread over the table. After the merge, a query sums three
columns. delta-rs writes no deletion vectors, so two plots have no curve of it.""",
        draw=partial(plots.growth_curves, axis="percentage of the rows"),
        plot_title="Seconds of each merge and scan, by size of the source",
    ),
)


def write_page(docs: Path) -> None:
    """Write the page and its plots below the folder of the documentation. Delete older plots."""
    sections = [(section, result) for section in SECTIONS if (result := results.load(section.suite)) is not None]
    shutil.rmtree(docs / PICTURES, ignore_errors=True)
    (docs / PICTURES).mkdir(parents=True)
    parts = [INTRODUCTION.format(duration=duration(sum(result.minutes for _, result in sections)))]
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
        f"{duration(result.minutes)}.\n"
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB of memory. "
        f"Load average before the run: {result.load_average:g}.\n"
        f"Versions: {versions}."
    )


def duration(minutes: float) -> str:
    """Return whole minutes as text, at least one."""
    count = max(round(minutes), 1)
    return "1 minute" if count == 1 else f"{count} minutes"


def table(cases: Sequence[Case]) -> str:
    """Return the table of the times and ratios."""
    sides = sides_of(cases)
    names = ["this package", *sides[1:]]
    header = ["group", "case", *names, *(f"ratio to {peer}" for peer in sides[1:])]
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
