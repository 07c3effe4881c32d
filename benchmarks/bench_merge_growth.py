"""A merge of 10,000 rows with adjacent keys into tables of 1, 10 and 100 million rows.

Each file of a table has a million rows with adjacent keys, so a merge should take the same time in each table. Half of
the rows are new. Each round works on a new table of hard links to the same files. The time does not include making this
table. The tables stay in `.benchmarks/` (1.5 GB). To use smaller tables, set `DELTALITE_BENCH_ROWS` to the number of
rows of the smallest table.
"""

from __future__ import annotations

import os
from pathlib import Path

from linked_copy import copy_with_links
from measuring import TimedPair, print_table
from pyspark.sql import SparkSession
from spark_session import session

from deltalite.commands.merge import merge
from deltalite.commands.write import write
from deltalite.requests import MergeClause, MergeRequest, Source, WriteRequest

SMALLEST = int(os.environ.get("DELTALITE_BENCH_ROWS", "1000000"))
GROWTHS = (10, 100)
SOURCE_ROWS = 10_000
ROUNDS = 5
FOLDER = Path(".benchmarks").resolve() / f"merge-growth-{SMALLEST}"
NO_SOURCE = {"source": Source(format="text", path=__file__)}


def query_of(first: int, count: int, files: int) -> str:
    """Return a query of `count` rows with adjacent keys from `first` on. Spark writes the rows to `files` files."""
    columns = "id AS order_id, concat('customer-', id) AS customer, 0.5D AS score"
    return f"SELECT {columns} FROM range({first}, {first + count}, 1, {files})"  # noqa: S608  numbers only


def make_table(spark: SparkSession, growth: int) -> Path:
    """Write the table with `growth` files unless it exists, and return its folder."""
    table = FOLDER / str(growth)
    if not table.exists():
        query = query_of(0, SMALLEST * growth, growth)
        write(spark, WriteRequest(table=str(table), sources=NO_SOURCE, query=query))
    return table


def merge_rows(spark: SparkSession, table: Path, rows: int) -> None:
    """Merge rows around the last key of the table: the first half of them exists. Exit if the counts are wrong."""
    result = merge(
        spark,
        MergeRequest(
            table=str(table),
            sources=NO_SOURCE,
            query=query_of(rows - SOURCE_ROWS // 2, SOURCE_ROWS, 1),
            on="target.order_id = source.order_id",
            when_matched=(MergeClause(update="*"),),
            when_not_matched=(MergeClause(insert="*"),),
        ),
    )
    counts = result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]
    if counts != (SOURCE_ROWS // 2, SOURCE_ROWS // 2):
        raise SystemExit(f"{table}: updated and inserted {counts} rows.")


def measure(spark: SparkSession, growth: int) -> TimedPair:
    """Measure the merge into the smallest table and into a table with `growth` times its rows. Return the times."""
    pair = TimedPair(
        name=f"merge of {SOURCE_ROWS:,} adjacent rows into {SMALLEST * growth:,}",
        peer=f"into {SMALLEST:,}",
        target=1.5,
    )
    tables = {count: make_table(spark, count) for count in (1, growth)}
    copies: dict[int, Path] = {}

    def prepare() -> None:
        for count, table in tables.items():
            copies[count] = copy_with_links(table, FOLDER / f"{count}-copy")

    pair.run(
        lambda: merge_rows(spark, copies[growth], SMALLEST * growth),
        lambda: merge_rows(spark, copies[1], SMALLEST),
        rounds=ROUNDS,
        prepare=prepare,
    )
    return pair


def main() -> None:
    """Measure the growth of the merge, and print a table."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    spark = session({"spark.sql.shuffle.partitions": "4"})
    print_table([measure(spark, growth) for growth in GROWTHS])
    spark.stop()


if __name__ == "__main__":
    main()
