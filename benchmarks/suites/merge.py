"""Delta's merge suite: 16 merges into `web_returns` of TPC-DS.

The cases are those of `MergeTestCases.scala` in the folder `benchmarks` of delta-io/delta. Each has a source with rows
from a share of the table's files: a share of the rows of these files matches, and a share is new. This module differs
in three points:

- The target has 20 files, so that 5 % is one file.
- The suite of Delta gives new rows random fractions as keys. Here, new rows have integer keys above those of the table.
- Matched rows change a value, so that the results show whether a side has updated them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.suites.data import tpcds
from benchmarks.suites.engines import Merge, Rows
from benchmarks.suites.merging import measure_merge
from benchmarks.suites.suite import Bench, check_equal
from benchmarks.suites.tables import make_table, sample, split, with_delta_types, with_values

FILES = 20
KEYS = ("wr_order_number", "wr_item_sk")
CHANGED_QUANTITY = 1_000  # more than any return of TPC-DS has


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCase:
    """A merge, and the source that it gets: shares of files, of matched rows and of new rows in these files."""

    kind: str
    files: float
    matched: float = 0.0
    new: float = 0.0
    inserts: tuple[str | None, ...] = (None,)
    effect: str | None = "update"

    @property
    def name(self) -> str:
        """The name of the case in tables, such as "5% of files, 10% matched, 1% new"."""
        shares = {"of files": self.files, "matched": self.matched, "new": self.new}
        return ", ".join(f"{share * 100:.3g}% {noun}" for noun, share in shares.items() if share)


TWO_INSERTS = ("source.wr_item_sk % 2 = 0", None)
CASES = (
    *(MergeCase(kind="insert", files=0.05, new=new, effect=None) for new in (0.05, 0.5, 1.0)),
    *(MergeCase(kind="two inserts", files=0.05, new=new, effect=None, inserts=TWO_INSERTS) for new in (0.05, 0.5, 1.0)),
    MergeCase(kind="delete", files=0.05, matched=0.05, effect="delete", inserts=()),
    *(
        MergeCase(kind="upsert", files=files, matched=matched, new=new)
        for files, matched, new in (
            (0.05, 0.1, 0.01),
            (0.05, 0.0, 0.1),
            (0.05, 0.01, 0.1),
            (0.05, 0.1, 0.0),
            (0.5, 0.01, 0.001),
            (1.0, 0.01, 0.001),
            (0.05, 0.5, 0.001),
            (0.05, 0.99, 0.001),
            (0.05, 1.0, 0.001),
        )
    ),
)


def run(bench: Bench) -> None:
    """Measure all cases with all sides."""
    rows = with_delta_types(pq.read_table(tpcds(bench.folder, bench.scale)["web_returns"]))
    target = bench.folder / f"web_returns-{bench.scale:g}"
    parts = split(rows, FILES)
    make_table(target, parts)
    for case in CASES:
        _measure(bench, case, target, parts)


def _measure(bench: Bench, case: MergeCase, target: Path, parts: list[pa.Table]) -> None:
    """Measure one case, and compare the tables of all sides."""
    source, matched_rows, new_rows = source_of(case, parts)
    source_file = bench.new_file()
    pq.write_table(source, source_file)
    change = Merge(source=str(source_file), keys=KEYS, matched=case.effect, inserts=case.inserts)
    deleted, updated = (matched_rows, 0) if case.effect == "delete" else (0, matched_rows)
    rows_after = sum(part.num_rows for part in parts) + new_rows - deleted

    def check(tables: Mapping[str, Path]) -> None:
        results = {side: _contents(table) for side, table in tables.items()}
        key_sum = results["deltalite"][0][2]
        check_equal(case.name, {"the expected result": [(rows_after, updated, key_sum)], **results})

    measure_merge(bench, case.kind, case.name, target, change, check)
    bench.clear_work()


def source_of(case: MergeCase, parts: list[pa.Table]) -> tuple[pa.Table, int, int]:
    """Return the source of a case, and its numbers of matched and of new rows."""
    random_generator = random.Random(case.name)  # noqa: S311  the same source in each run
    touched_parts = pa.concat_tables(random_generator.sample(parts, round(case.files * len(parts))))
    matched = sample(random_generator, touched_parts, case.matched)
    matched = with_values(matched, "wr_return_quantity", [CHANGED_QUANTITY] * matched.num_rows)
    new = sample(random_generator, touched_parts, case.new)
    first_key = pc.max(pa.concat_tables(parts)["wr_order_number"]).as_py() + 1
    new = with_values(new, "wr_order_number", list(range(first_key, first_key + new.num_rows)))
    return pa.concat_tables([matched, new]), matched.num_rows, new.num_rows


def _contents(table: Path) -> Rows:
    """Return the number of rows of a table, the number of updated rows, and the sum of a key."""
    rows = DeltaTable(table).to_pyarrow_table(columns=["wr_order_number", "wr_return_quantity"])
    updated = pc.sum(pc.equal(rows["wr_return_quantity"], CHANGED_QUANTITY)).as_py()
    return [(rows.num_rows, updated, pc.sum(rows["wr_order_number"]).as_py())]
