"""The clustering of new rows in a clustered table, compared with the clustering of all its rows.

The new rows are a tenth of the table. The benchmark also counts the files that remain after data skipping, in a
clustered table and in a Z-ordered table. Each round works on a new table of hard links to the same files. The time does
not include making this table. To use smaller tables, set `DELTALITE_BENCH_ROWS`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from linked_copy import copy_with_links
from measuring import TimedPair, print_table
from pyspark.sql import SparkSession
from spark_session import session

from deltalite.columnar.predicates.filters import from_filters
from deltalite.columnar.skipping.files import prune
from deltalite.commands.optimize import optimize
from deltalite.commands.table import define_table
from deltalite.commands.write import write
from deltalite.requests import OptimizeRequest, Source, TableRequest, WriteMode, WriteRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore

ROWS = int(os.environ.get("DELTALITE_BENCH_ROWS", "4000000"))
ROUNDS = 3
FILES = 64
FOLDER = Path(".benchmarks").resolve() / f"clustering-{ROWS}"
PLAIN, CLUSTERED, GROWN = FOLDER / "plain", FOLDER / "clustered", FOLDER / "grown"
TARGET = 0.3
COLUMNS = ("customer", "price")
MAX_VALUE = 1_000_000
BOXES = 200
NO_SOURCE = {"source": Source(format="text", path=__file__)}


def append(spark: SparkSession, table: Path, first: int, count: int) -> None:
    """Append `count` rows with two random columns. Their ids begin at `first`."""
    random_columns = f"CAST(rand(1) * {MAX_VALUE} AS INT) AS customer, CAST(rand(2) * {MAX_VALUE} AS INT) AS price"
    query = (
        f"SELECT id AS order_id, {random_columns}, md5(string(id)) AS text "  # noqa: S608  numbers only
        f"FROM range({first}, {first + count}, 1, 4)"
    )
    write(spark, WriteRequest(table=str(table), sources=NO_SOURCE, query=query, mode=WriteMode.APPEND))


def optimize_table(spark: SparkSession, table: Path, *, full: bool = False, z_order: bool = False) -> None:
    """Optimize a table into about `FILES` files."""
    size = sum(path.stat().st_size for path in PLAIN.glob("*.parquet"))
    z_order_by = COLUMNS if z_order else ()
    target = max(1, size // FILES)
    optimize(spark, OptimizeRequest(table=str(table), target_file_size=target, full=full, z_order_by=z_order_by))


def make_tables(spark: SparkSession) -> None:
    """Write a plain table, an optimized clustered table, and a copy of the latter with a tenth of new rows."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    append(spark, PLAIN, 0, ROWS)
    schema = "order_id BIGINT, customer INT, price INT, text STRING"
    define_table(spark, TableRequest(table=str(CLUSTERED), schema=schema, cluster_by=list(COLUMNS)))
    append(spark, CLUSTERED, 0, ROWS)
    optimize_table(spark, CLUSTERED)
    copy_with_links(CLUSTERED, GROWN)
    append(spark, GROWN, ROWS, ROWS // 10)


def measure_new_tenth(spark: SparkSession) -> TimedPair:
    """Measure the clustering of the new tenth against the clustering of all rows. Return the times."""
    pair = TimedPair(name="clustering of a new tenth", peer="full=True", target=TARGET)
    copies: dict[str, Path] = {}

    def prepare() -> None:
        copies["new rows"] = copy_with_links(GROWN, FOLDER / "grown-copy")
        copies["all rows"] = copy_with_links(GROWN, FOLDER / "grown-full")

    pair.run(
        lambda: optimize_table(spark, copies["new rows"]),
        lambda: optimize_table(spark, copies["all rows"], full=True),
        rounds=ROUNDS,
        prepare=prepare,
    )
    return pair


def count_files_after_skipping(table: Path) -> tuple[int, float]:
    """Return the number of files, and the average number of files that remain after skipping with a random box.

    A box is a predicate with a range of each column in `COLUMNS`.
    """
    random, snapshot = Random(5), Snapshot.load(LocalLogStore(str(table)))  # noqa: S311  not a secret
    remaining_files = 0
    for _ in range(BOXES):
        box: list[tuple[str, str, int]] = []
        for column in COLUMNS:
            width = random.choice((100, MAX_VALUE // 100, MAX_VALUE // 10, MAX_VALUE))
            low = random.randrange(MAX_VALUE - width + 1)
            box += [(column, ">=", low), (column, "<", low + width)]
        remaining_files += prune(snapshot.files, from_filters(box, snapshot.schema), snapshot.table_schema).num_rows
    return snapshot.files.num_rows, remaining_files / BOXES


def print_skipping(spark: SparkSession) -> None:
    """Print the number of files that remain after skipping, for a clustered and a Z-ordered table."""
    z_ordered = copy_with_links(PLAIN, FOLDER / "plain-copy")
    optimize_table(spark, z_ordered, z_order=True)
    for name, table in (("clustering", CLUSTERED), ("Z-order", z_ordered)):
        files, remaining_files = count_files_after_skipping(table)
        print(f"{name:<12} {files:>4} files, {remaining_files:>6.2f} remain on average for one of {BOXES} random boxes")


def main() -> None:
    """Measure the clustering, count the remaining files, and print both."""
    spark = session({"spark.sql.shuffle.partitions": "4"})
    if not GROWN.exists():
        make_tables(spark)
    print_table([measure_new_tenth(spark)])
    print_skipping(spark)
    spark.stop()


if __name__ == "__main__":
    main()
