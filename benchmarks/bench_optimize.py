"""Compaction of 2,000 small files and a Z-order of 4,000,000 rows, compared with delta-rs and a plain read and write.

Each round works on a new table of hard links to the same files. The time does not include making this table. delta-rs
gets the same target size. The benchmark also runs a query before and after the Z-order. It prints the files and row
groups that remain after data skipping, and the time of the query in Spark. To use smaller tables, set
`DELTALITE_BENCH_FILES` and `DELTALITE_BENCH_ROWS`.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake
from linked_copy import copy_with_links
from measuring import TimedPair, print_table
from pyspark.sql import SparkSession
from spark_session import session

import deltalite.spark as delta
from deltalite.columnar.predicates.predicate import Comparison, Operator
from deltalite.columnar.skipping.files import prune
from deltalite.commands.optimize import optimize
from deltalite.requests import OptimizeRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.scan.frame import scan
from deltalite.storage.local import LocalLogStore

FILES = int(os.environ.get("DELTALITE_BENCH_FILES", "2000"))
ROWS = int(os.environ.get("DELTALITE_BENCH_ROWS", "4000000"))
ROUNDS = 2
FOLDER = Path(".benchmarks").resolve() / f"optimize-{FILES}-{ROWS}"
WORK = FOLDER / "work"
TARGET_BYTES = 8 * 1024 * 1024
COLUMNS = ("customer", "product")


def random_orders(first_id: int, count: int) -> pa.Table:
    """Return orders with random customers and products."""
    random = np.random.default_rng(first_id)
    return pa.table(
        {
            "order_id": np.arange(first_id, first_id + count),
            "customer": random.integers(0, 100_000, count),
            "product": random.integers(0, 10_000, count),
            "amount": random.random(count),
        }
    )


def make_table(name: str, files: int, rows: int, partitions: int = 1) -> Path:
    """Make a table with this number of files, rows and partitions unless it exists, and return its folder.

    One commit adds all files.
    """
    table = FOLDER / name
    if table.exists():
        return table
    rows_per_file = rows // files
    no_rows = random_orders(0, 0).append_column("part", pa.array([], pa.string()))
    write_deltalake(table, no_rows, partition_by=["part"])
    actions = []
    for number in range(files):
        folder = f"part={number % partitions}"
        (table / folder).mkdir(exist_ok=True)
        file = f"{folder}/{number:05}.parquet"
        pq.write_table(random_orders(number * rows_per_file, rows_per_file), table / file)
        actions.append({"add": {"path": file, "partitionValues": {"part": str(number % partitions)},
                                "size": (table / file).stat().st_size, "modificationTime": number, "dataChange": True,
                                "stats": json.dumps({"numRecords": rows_per_file})}})  # fmt: skip
    (table / "_delta_log" / f"{1:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return table


def copy_for_each_side(original: Path) -> dict[str, str]:
    """Copy a table for each side, and return the addresses of the copies by side."""
    return {side: str(copy_with_links(original, WORK / side)) for side in ("deltalite", "peer")}


def read_and_write(spark: SparkSession, table: str) -> None:
    """Read the rows of a table with Spark, and write them to a folder of Parquet files."""
    snapshot = Snapshot.load(LocalLogStore(table))
    scan(spark, snapshot).write.mode("overwrite").parquet(str(WORK / "rewritten"))


def compare(name: str, peer: str, target: float, table: Path, run_deltalite: Callable, run_peer: Callable) -> TimedPair:
    """Measure both sides, in each round on new copies of the table. Return the times.

    Both functions take the address of a copy.
    """
    pair = TimedPair(name=name, peer=peer, target=target)
    copies: dict[str, str] = {}
    pair.run(
        lambda: run_deltalite(copies["deltalite"]),
        lambda: run_peer(copies["peer"]),
        rounds=ROUNDS,
        prepare=lambda: copies.update(copy_for_each_side(table)),
    )
    return pair


def run_query(spark: SparkSession, table: str, column: str, value: int) -> tuple[str, float]:
    """Run a query for one value. Return a text with the files and row groups that it reads, and its median seconds."""
    snapshot = Snapshot.load(LocalLogStore(table))
    remaining = prune(
        snapshot.files, Comparison(column=(column,), operator=Operator.EQ, literal=value), snapshot.table_schema
    )
    num_groups = num_read_groups = 0
    for path in remaining["path"].to_pylist():
        footer = pq.read_metadata(Path(table) / path)
        column_index = footer.schema.to_arrow_schema().get_field_index(column)
        for group in range(footer.num_row_groups):
            bounds = footer.row_group(group).column(column_index).statistics
            num_groups += 1
            num_read_groups += bounds.min <= value <= bounds.max
    query_seconds = []
    for _ in range(3):
        started = time.perf_counter()
        delta.read(spark, table, where=f"{column} = {value}").where(f"{column} = {value}").selectExpr(
            "sum(amount)"
        ).collect()
        query_seconds.append(time.perf_counter() - started)
    files = f"{remaining.num_rows} of {snapshot.files.num_rows} files"
    reads = f"{files}, {num_read_groups} of {num_groups} row groups of these files"
    return reads, statistics.median(query_seconds)


def main() -> None:
    """Print the comparisons, then the files and row groups that a query reads before and after the Z-order."""
    WORK.mkdir(parents=True, exist_ok=True)
    spark = session({"spark.sql.shuffle.partitions": "4"})
    small = make_table(f"small-{FILES}", FILES, FILES * 1000)
    partitioned = make_table(f"partitioned-{FILES}", FILES, FILES * 1000, partitions=max(1, FILES // 20))
    large = make_table("large", 40, ROWS)

    def pack(table: str) -> None:
        optimize(spark, OptimizeRequest(table=table))

    def order_rows(table: str) -> None:
        optimize(spark, OptimizeRequest(table=table, z_order_by=COLUMNS, target_file_size=TARGET_BYTES))

    def copy_rows(table: str) -> None:
        read_and_write(spark, table)

    def pack_with_delta_rs(table: str) -> None:
        DeltaRsTable(table).optimize.compact()

    def order_with_delta_rs(table: str) -> None:
        DeltaRsTable(table).optimize.z_order(list(COLUMNS), target_size=TARGET_BYTES)

    pairs = [
        compare(f"pack {FILES} files", "plain read and write", 1.5, small, pack, copy_rows),
        compare(f"pack {FILES} files", "delta-rs", 3.0, small, pack, pack_with_delta_rs),
        compare(f"pack {FILES} files of {max(1, FILES // 20)} partitions", "delta-rs", 5.0, partitioned, pack,
                pack_with_delta_rs),
        compare(f"pack 40 files of {ROWS} rows", "plain read and write", 1.1, large, pack, copy_rows),
        compare(f"order {ROWS} rows", "delta-rs", 3.0, large, order_rows, order_with_delta_rs),
    ]  # fmt: skip
    print_table(pairs)
    table = copy_for_each_side(large)["deltalite"]
    before = {column: run_query(spark, table, column, 4_242) for column in COLUMNS}
    order_rows(table)
    after = {column: run_query(spark, table, column, 4_242) for column in COLUMNS}
    for column in COLUMNS:
        for before_or_after, (reads, seconds) in (("before", before[column]), ("after", after[column])):
            print(f"{column} = 4242, {before_or_after:>6} the Z-order: reads {reads}; {seconds:.2f} s")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB peak memory of the Python process")


if __name__ == "__main__":
    main()
