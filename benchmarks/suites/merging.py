"""The measurement of one merge: each round merges the same source into a new copy of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.suites.engines import Engine, Merge
from benchmarks.suites.suite import Bench
from benchmarks.suites.tables import copy_table


def measure_merge(
    bench: Bench,
    group: str,
    name: str,
    target: Path,
    change: Merge,
    check: Callable[[Mapping[str, Path]], None],
    *,
    engines: Sequence[Engine] | None = None,
    size: float | None = None,
) -> dict[str, Path]:
    """Measure a merge with the engines, by default all, and return the table of each side after the last round.

    `check` gets these tables, and exits if they differ.
    """
    engines = engines or bench.engines
    tables: dict[str, Path] = {}

    def prepare() -> None:
        tables.update({engine.name: copy_table(target, bench.new_table()) for engine in engines})

    def run_side(engine: Engine) -> Callable[[], object]:
        return lambda: engine.merge(str(tables[engine.name]), change)

    sides = {engine.name: run_side(engine) for engine in engines}
    bench.measure(group, name, sides, size=size, prepare=prepare, check=lambda: check(tables))
    return tables
