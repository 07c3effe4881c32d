"""The frame of a suite: its input, the measurement of its cases, and the comparison of their results."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from benchmarks.suites.cases import Case, median
from benchmarks.suites.engines import Engine, Rows
from benchmarks.turns import time_in_turns


@dataclass(slots=True, kw_only=True)
class Bench:
    """Everything that a suite needs, and the cases that it has measured so far.

    `folder` keeps generated data for later runs. A suite puts tables that change into `work`, and deletes them.
    `address_count` is the number of addresses that `new_table` has returned.
    """

    folder: Path
    scale: float
    rounds: int
    engines: Sequence[Engine]
    cases: list[Case] = field(default_factory=list)
    address_count: int = 0

    @property
    def work(self) -> Path:
        """The folder of the tables that change."""
        return self.folder / "work"

    def new_table(self) -> Path:
        """Return a new address for a table. delta-spark keeps snapshots by address, so no address is used twice."""
        self.address_count += 1
        self.work.mkdir(parents=True, exist_ok=True)
        return self.work / f"table-{self.address_count}"

    def new_file(self) -> Path:
        """Return a new address for a Parquet file."""
        return self.new_table().with_suffix(".parquet")

    def measure(
        self,
        group: str,
        name: str,
        sides: Mapping[str, Callable[[], object]],
        *,
        check: Callable[[], None],
        size: float | None = None,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """Measure all sides in turns, check their last results, add the case, and print its medians.

        `check` exits if the results differ.
        """
        times = time_in_turns(sides, rounds=self.rounds, prepare=prepare)
        check()
        seconds = {side: [round(time, 4) for time in side_times] for side, side_times in times.items()}
        self.cases.append(Case(group=group, name=name, size=size, seconds=seconds))
        medians = ", ".join(f"{side} {median(side_times):.3f} s" for side, side_times in seconds.items())
        print(f"{group}, {name}: {medians}", flush=True)

    def measure_queries(
        self,
        group: str,
        name: str,
        queries: Mapping[str, Callable[[], Rows]],
        *,
        size: float | None = None,
        compared: Callable[[Rows], Rows] = lambda rows: rows,
    ) -> None:
        """Measure the same query of all sides. `compared` returns the part of the rows that must be equal."""
        results: dict[str, Rows] = {}

        def run_side(side: str) -> Callable[[], None]:
            return lambda: results.update({side: queries[side]()})

        def check() -> None:
            check_equal(f"{group}, {name}", {side: compared(rows) for side, rows in results.items()})

        self.measure(group, name, {side: run_side(side) for side in queries}, size=size, check=check)

    def clear_work(self) -> None:
        """Delete the tables that changed."""
        shutil.rmtree(self.work, ignore_errors=True)


def check_equal(case: str, rows_by_side: Mapping[str, Rows]) -> None:
    """Exit unless all sides of a case have the same rows. Numbers may differ by rounding."""
    (first, expected), *others = rows_by_side.items()
    for side, rows in others:
        same = len(rows) == len(expected) and all(
            len(row) == len(expected_row) and all(map(_is_same, row, expected_row))
            for row, expected_row in zip(rows, expected, strict=True)
        )
        if not same:
            raise SystemExit(f"{case}: {first} has the rows {expected[:5]}, and {side} has the rows {rows[:5]}.")


def _is_same(value: object, expected: object) -> bool:
    """Whether two values of a result are equal. Engines round decimals and quotients to different digits."""
    if isinstance(value, float | Decimal) and isinstance(expected, float | Decimal):
        return math.isclose(value, expected, rel_tol=1e-6, abs_tol=1e-6)
    return value == expected
