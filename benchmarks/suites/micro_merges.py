"""LHBench's micro merges: small merges into a large table, then a scan of the table.

The table and the sizes are those of `MergeMicroBenchmark.scala` in lhbench/lhbench: four columns, and sources of
0.0001 % to 0.1 % of the rows. Half of a source is new. The other rows have keys that are spread over the table. LHBench
gives the changed rows their old values. Here, they get a new value, so that the scan shows whether a side has updated
them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.suites.engines import Engine, Merge, Query, Rows
from benchmarks.suites.merging import measure_merge
from benchmarks.suites.suite import Bench, check_equal
from benchmarks.suites.tables import make_table

ROWS = 10_000_000  # for scale 1
FILES = 16
PERCENTAGES = (0.0001, 0.001, 0.01, 0.1)
SCAN = Query("SELECT COUNT(*), SUM(key), SUM(value), SUM(CAST(value2 AS DOUBLE)) FROM micro")
# delta-rs writes no deletion vectors, so it does not take part with this property.
KINDS = {"": {}, ", deletion vectors": {"delta.enableDeletionVectors": "true"}}


def run(bench: Bench) -> None:
    """Measure the merges of all sizes, in a table without and in a table with deletion vectors."""
    rows = int(ROWS * bench.scale)
    for kind, properties in KINDS.items():
        target = bench.folder / f"micro-{rows}{'-vectors' if properties else ''}"
        make_table(target, _parts(rows), properties=properties)
        engines = [engine for engine in bench.engines if not (properties and engine.name == "delta-rs")]
        for percentage in PERCENTAGES:
            _measure(bench, kind, target, engines, _source(rows, percentage), percentage)


def _measure(
    bench: Bench, kind: str, target: Path, engines: Sequence[Engine], source: pa.Table, percentage: float
) -> None:
    """Measure the merge of one source and the scans after it. `kind` is a key of `KINDS`."""
    source_file = bench.new_file()
    pq.write_table(source, source_file)
    change = Merge(source=str(source_file), keys=("key",))
    name = f"{percentage}% of the rows"

    def check(tables: Mapping[str, Path]) -> None:
        reader = engines[0]  # one reader for the tables of all sides
        check_equal(name, {side: reader.query({"micro": str(table)}, SCAN) for side, table in tables.items()})

    tables = measure_merge(bench, f"merge{kind}", name, target, change, check, engines=engines, size=percentage)
    scans = {engine.name: _scan(engine, str(tables[engine.name])) for engine in engines}
    bench.measure_queries(f"scan after the merge{kind}", name, scans, size=percentage)
    bench.clear_work()


def _scan(engine: Engine, table: str) -> Callable[[], Rows]:
    """Return a function that scans a table."""
    return lambda: engine.query({"micro": table}, SCAN)


def _rows(keys: pa.Array) -> pa.Table:
    """Return the rows with these keys."""
    return pa.table(
        {
            "key": keys,
            "value": pc.add(pc.multiply(keys.cast(pa.float64()), 7.1), 13.4),
            "value2": pc.multiply(keys, 91).cast(pa.string()),
            "partition": pc.subtract(keys, pc.multiply(pc.divide(keys, 1000), 1000)),
        }
    )


def _parts(rows: int) -> Iterator[pa.Table]:
    """Yield the rows of each file of the table."""
    for number in range(FILES):
        yield _rows(pa.array(range(rows * number // FILES, rows * (number + 1) // FILES), pa.int64()))


def _source(rows: int, percentage: float) -> pa.Table:
    """Return the source of a merge. Its rows have another value than those of the table."""
    half = max(1, round(rows * percentage / 100 / 2))
    random_generator = random.Random(percentage)  # noqa: S311  the same source in each run
    keys = pa.array([*random_generator.sample(range(rows), half), *range(rows, rows + half)], pa.int64())
    source = _rows(keys)
    return source.set_column(1, "value", pc.negate(source["value"]))
