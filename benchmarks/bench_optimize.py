"""Compaction of 2,000 small files and a Z-order of 4,000,000 rows, compared with delta-rs and a plain read and write.

Each round works on a new table of hard links to the same files; making it is not timed. delta-rs gets the same target
size. Then a query runs before and after the Z-order. The benchmark prints the files and row groups that remain after
data skipping, and the time in Spark. `DELTALITE_BENCH_FILES` and `DELTALITE_BENCH_ROWS` make the tables smaller.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake
from measuring import Pair, print_table
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
TARGET = 8 * 1024 * 1024
COLUMNS = ("customer", "product")


def rows(first: int, count: int) -> pa.Table:
    """Return orders with random customers and products."""
    chance = np.random.default_rng(first)
    return pa.table(
        {
            "order_id": np.arange(first, first + count),
            "customer": chance.integers(0, 100_000, count),
            "product": chance.integers(0, 10_000, count),
            "amount": chance.random(count),
        }
    )


def make_table(name: str, files: int, count: int, parts: int = 1) -> Path:
    """Make a table of `files` files and `count` rows with one commit, in `parts` partitions, unless it exists."""
    table = FOLDER / name
    if table.exists():
        return table
    rows_per_file = count // files
    write_deltalake(table, rows(0, 0).append_column("part", pa.array([], pa.string())), partition_by=["part"])
    log = []
    for number in range(files):
        folder = f"part={number % parts}"
        (table / folder).mkdir(exist_ok=True)
        file = f"{folder}/{number:05}.parquet"
        pq.write_table(rows(number * rows_per_file, rows_per_file), table / file)
        log.append({"add": {"path": file, "partitionValues": {"part": str(number % parts)},
                            "size": (table / file).stat().st_size, "modificationTime": number, "dataChange": True,
                            "stats": json.dumps({"numRecords": rows_per_file})}})  # fmt: skip
    (table / "_delta_log" / f"{1:020}.json").write_text("\n".join(map(json.dumps, log)))
    return table


def copy_for_each_side(template: Path) -> dict[str, str]:
    """Make a table of hard links for each side, and return the addresses."""
    tables = {}
    for side in ("ours", "theirs"):
        shutil.rmtree(WORK / side, ignore_errors=True)
        shutil.copytree(template, WORK / side, copy_function=os.link)
        tables[side] = str(WORK / side)
    return tables


def rewrite(spark: SparkSession, table: str) -> None:
    """Read and write the same rows with Spark, and nothing else."""
    snapshot = Snapshot.load(LocalLogStore(table))
    scan(spark, snapshot).write.mode("overwrite").parquet(str(WORK / "rewritten"))


def compare(name: str, peer: str, target: float, template: Path, ours: Callable, peers: Callable) -> Pair:
    """Measure both sides, each time on a new copy of the table."""
    pair = Pair(name=name, peer=peer, target=target)
    tables: dict[str, str] = {}
    pair.run(
        lambda: ours(tables["ours"]),
        lambda: peers(tables["theirs"]),
        rounds=ROUNDS,
        prepare=lambda: tables.update(copy_for_each_side(template)),
    )
    return pair


def run_query(spark: SparkSession, table: str, column: str, value: int) -> tuple[str, float]:
    """Return the files and row groups that a query for one value reads, as text, and its seconds."""
    snapshot = Snapshot.load(LocalLogStore(table))
    remaining = prune(
        snapshot.files, Comparison(column=(column,), operator=Operator.EQ, literal=value), snapshot.table_schema
    )
    num_groups = num_read_groups = 0
    for path in remaining["path"].to_pylist():
        footer = pq.read_metadata(Path(table) / path)
        at = footer.schema.to_arrow_schema().get_field_index(column)
        for number in range(footer.num_row_groups):
            bounds = footer.row_group(number).column(at).statistics
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
    amount = f"{files}, {num_read_groups} of {num_groups} row groups of these"
    return amount, statistics.median(query_seconds)


def main() -> None:
    """Print the comparisons, then the amount that a query reads."""
    WORK.mkdir(parents=True, exist_ok=True)
    spark = session({"spark.sql.shuffle.partitions": "4"})
    small = make_table(f"small-{FILES}", FILES, FILES * 1000)
    parted = make_table(f"parted-{FILES}", FILES, FILES * 1000, parts=max(1, FILES // 20))
    large = make_table("large", 40, ROWS)

    def pack(table: str) -> None:
        optimize(spark, OptimizeRequest(table=table))

    def order(table: str) -> None:
        optimize(spark, OptimizeRequest(table=table, z_order_by=COLUMNS, target_file_size=TARGET))

    pairs = [
        compare(f"pack {FILES} files", "plain read and write", 1.5, small, pack, lambda t: rewrite(spark, t)),
        compare(f"pack {FILES} files", "delta-rs", 3.0, small, pack, lambda t: DeltaRsTable(t).optimize.compact()),
        compare(f"pack {FILES} files of {max(1, FILES // 20)} partitions", "delta-rs", 5.0, parted, pack,
               lambda t: DeltaRsTable(t).optimize.compact()),
        compare(f"pack 40 files of {ROWS} rows", "plain read and write", 1.1, large, pack, lambda t: rewrite(spark, t)),
        compare(f"order {ROWS} rows", "delta-rs", 3.0, large, order,
               lambda t: DeltaRsTable(t).optimize.z_order(list(COLUMNS), target_size=TARGET)),
    ]  # fmt: skip
    print_table(pairs)
    copy_for_each_side(large)
    before = {column: run_query(spark, str(WORK / "ours"), column, 4_242) for column in COLUMNS}
    order(str(WORK / "ours"))
    for column in COLUMNS:
        for when, (amount, seconds) in (
            ("before", before[column]),
            ("after", run_query(spark, str(WORK / "ours"), column, 4_242)),
        ):
            print(f"{column} = 4242 {when:>6}: reads {amount}; {seconds:.2f} s")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB peak memory of the Python process")


if __name__ == "__main__":
    main()
