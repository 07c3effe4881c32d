"""LHBench's table with many files: four queries on tables with 1,000 to 50,000 files.

The table is the sorted table of `FileCountBenchmark.scala` in lhbench/lhbench: each file is a partition, and no two
files have the same `ss_item_sk`. LHBench has files of 10 MB. Here, a file has 100 rows and fewer columns, so the times
are mostly those of the log and of opening files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from benchmarks.suites.engines import DeltaSpark, Engine, Query, Rows
from benchmarks.suites.suite import Bench
from benchmarks.suites.tables import make_table

FILES = (1_000, 5_000, 10_000, 50_000)  # for scale 1
ROWS_PER_FILE = 100
SUM = "SELECT SUM(ss_quantity) FROM store_sales"
QUERIES = {
    "one row": Query("SELECT * FROM store_sales LIMIT 1"),
    "count of all rows": Query("SELECT COUNT(*) FROM store_sales"),
    "filter by a partition": Query(f"{SUM} WHERE ss_sold_date_sk = 50", where="ss_sold_date_sk = 50"),
    "filter by a value": Query(f"{SUM} WHERE ss_item_sk = 5050", where="ss_item_sk = 5050"),
}


def run(bench: Bench) -> None:
    """Measure the queries on a table of each size."""
    engines = [*bench.engines]
    for engine in bench.engines:
        if isinstance(engine, DeltaSpark):
            engines.insert(2, replace(engine, name="delta-spark, warm", keeps_snapshots=True))
    for files in sorted({max(100, round(count * bench.scale)) for count in FILES}):
        table = bench.folder / f"many-files-{files}"
        make_table(table, _parts(files), partition_column="ss_sold_date_sk")
        for name, query in QUERIES.items():
            sides = {engine.name: _run_side(engine, str(table), query) for engine in engines}
            # Engines may return different rows if the query asks for any row.
            compared = _number_of_rows if name == "one row" else _all_rows
            bench.measure_queries(name, f"{files:,} files", sides, size=files, compared=compared)


def _all_rows(rows: Rows) -> Rows:
    return rows


def _number_of_rows(rows: Rows) -> Rows:
    return [(len(rows),)]


def _run_side(engine: Engine, table: str, query: Query) -> Callable[[], Rows]:
    """Return a function that runs a query."""
    return lambda: engine.query({"store_sales": table}, query)


def _parts(files: int) -> Iterator[pa.Table]:
    """Yield the rows of each file."""
    for number in range(files):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        yield pa.table(
            {
                "ss_sold_date_sk": pa.array([number] * ROWS_PER_FILE, pa.int64()),
                "ss_item_sk": pa.array(ids, pa.int64()),
                "ss_customer_sk": pa.array([key % 123 for key in ids], pa.int64()),
                "ss_quantity": pa.array([key % 7 for key in ids], pa.int64()),
                "ss_ticket_number": pa.array([key * 91 + 23 for key in ids], pa.int64()),
                "ss_list_price": pa.array([key * 0.25 for key in ids], pa.float64()),
            }
        )
