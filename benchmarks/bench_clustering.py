"""Clustering: the new tenth of a table against the whole table, and the files that are left to read against Z-order.

Each round works on a new table of hard links to the same files; making it is not timed. `DELTALITE_BENCH_ROWS` makes
the tables smaller.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from measuring import Pair, print_table
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
    """Append rows with two random columns."""
    random_columns = f"CAST(rand(1) * {MAX_VALUE} AS INT) AS customer, CAST(rand(2) * {MAX_VALUE} AS INT) AS price"
    query = (
        f"SELECT id AS order_id, {random_columns}, md5(string(id)) AS text "  # noqa: S608  numbers only
        f"FROM range({first}, {first + count}, 1, 4)"
    )
    write(spark, WriteRequest(table=str(table), sources=NO_SOURCE, query=query, mode=WriteMode.APPEND))


def copy_with_links(table: Path) -> Path:
    """Make a table of hard links to the files of a table, and return its folder."""
    copy = FOLDER / f"{table.name}-copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy, copy_function=os.link)
    return copy


def optimize_table(spark: SparkSession, table: Path, *, full: bool = False, z_order: bool = False) -> None:
    """Optimize a table into about `FILES` files."""
    size = sum(path.stat().st_size for path in PLAIN.glob("*.parquet"))
    z_order_by = COLUMNS if z_order else ()
    target = max(1, size // FILES)
    optimize(spark, OptimizeRequest(table=str(table), target_file_size=target, full=full, z_order_by=z_order_by))


def make_tables(spark: SparkSession) -> None:
    """Write a plain table, a clustered one in order, and the latter with a tenth of new rows."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    append(spark, PLAIN, 0, ROWS)
    schema = "order_id BIGINT, customer INT, price INT, text STRING"
    define_table(spark, TableRequest(table=str(CLUSTERED), schema=schema, cluster_by=list(COLUMNS)))
    append(spark, CLUSTERED, 0, ROWS)
    optimize_table(spark, CLUSTERED)
    shutil.copytree(CLUSTERED, GROWN, copy_function=os.link)
    append(spark, GROWN, ROWS, ROWS // 10)


def measure_new_tenth(spark: SparkSession) -> Pair:
    """Measure the clustering of the new tenth against the clustering of all rows."""
    pair = Pair(name="clustering of a new tenth", peer="full=True", target=TARGET)
    copies: list[Path] = []

    def prepare() -> None:
        first = copy_with_links(GROWN)
        second = FOLDER / "grown-full"
        shutil.rmtree(second, ignore_errors=True)
        copies[:] = [first, Path(shutil.copytree(GROWN, second, copy_function=os.link))]

    pair.run(
        lambda: optimize_table(spark, copies[0]),
        lambda: optimize_table(spark, copies[1], full=True),
        rounds=ROUNDS,
        prepare=prepare,
    )
    return pair


def files_left(table: Path) -> tuple[int, float]:
    """Return the number of files, and how many of them remain on average for a box of both columns."""
    random, snapshot = Random(5), Snapshot.load(LocalLogStore(str(table)))  # noqa: S311  not a secret
    left = 0
    for _ in range(BOXES):
        box: list[tuple[str, str, int]] = []
        for column in COLUMNS:
            width = random.choice((100, MAX_VALUE // 100, MAX_VALUE // 10, MAX_VALUE))
            low = random.randrange(MAX_VALUE - width + 1)
            box += [(column, ">=", low), (column, "<", low + width)]
        left += prune(snapshot.files, from_filters(box, snapshot.schema), snapshot.table_schema).num_rows
    return snapshot.files.num_rows, left / BOXES


def print_skipping(spark: SparkSession) -> None:
    """Print how many files remain to be read after a clustering and after a Z-order."""
    z_ordered = copy_with_links(PLAIN)
    optimize_table(spark, z_ordered, z_order=True)
    for name, table in (("clustering", CLUSTERED), ("Z-order", z_ordered)):
        files, left = files_left(table)
        print(f"{name:<12} {files:>4} files, on average {left:>6.2f} of them remain for one of {BOXES} random boxes")


def main() -> None:
    """Measure the clustering, count the files left, and print both."""
    spark = session({"spark.sql.shuffle.partitions": "4"})
    if not GROWN.exists():
        make_tables(spark)
    print_table([measure_new_tenth(spark)])
    print_skipping(spark)
    spark.stop()


if __name__ == "__main__":
    main()
