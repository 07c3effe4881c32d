"""The cost of row tracking: the same operations on the same rows, in tables with and without row tracking.

Each round works on a new table of hard links to the same files. The time does not include making this table. To use
smaller tables, set `DELTALITE_BENCH_ROWS`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from measuring import TimedPair, print_table
from pyspark.sql import SparkSession
from spark_session import session

from deltalite.commands.delete import delete
from deltalite.commands.merge import merge
from deltalite.commands.optimize import optimize
from deltalite.commands.update import update
from deltalite.commands.write import write
from deltalite.requests import (
    DeleteRequest,
    MergeClause,
    MergeRequest,
    OptimizeRequest,
    Source,
    UpdateRequest,
    WriteMode,
    WriteRequest,
)

ROWS = int(os.environ.get("DELTALITE_BENCH_ROWS", "4000000"))
FILES = 8
ROUNDS = 3
FOLDER = Path(".benchmarks").resolve() / f"row-tracking-{ROWS}"
TRACKED, PLAIN = FOLDER / "tracked", FOLDER / "plain"
TARGET = 1.15
NO_SOURCE = {"source": Source(format="text", path=__file__)}
ROWS_PER_CHANGE = 1_000


def rows_query(first: int, count: int) -> str:
    """Return a query of `count` rows as in a typical feed. Their ids begin at `first`."""
    columns = "id AS order_id, concat('customer-', id) AS customer, 0D AS score"
    return f"SELECT {columns} FROM range({first}, {first + count}, 1, 2)"  # noqa: S608  numbers only


def append(spark: SparkSession, table: Path, first: int, count: int, properties: dict[str, str]) -> None:
    """Append the rows of `rows_query`. The properties apply to a new table."""
    request = WriteRequest(
        table=str(table),
        sources=NO_SOURCE,
        query=rows_query(first, count),
        mode=WriteMode.APPEND,
        properties=properties,
    )
    write(spark, request)


def make_tables(spark: SparkSession) -> None:
    """Write the tables that each round copies."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for table, row_tracking in ((PLAIN, "false"), (TRACKED, "true")):
        for number in range(FILES // 2):
            count = 2 * ROWS // FILES
            append(spark, table, number * count, count, {"delta.enableRowTracking": row_tracking})


def merge_rows(spark: SparkSession, table: Path) -> None:
    """Merge one percent of the rows. Half of the rows are new, the other half is spread over the table."""
    half = ROWS // 200
    changed_rows = rows_query(0, half).replace("id AS", f"id * {ROWS // half} AS", 1)
    query = f"{changed_rows} UNION ALL {rows_query(ROWS, half)}"
    request = MergeRequest(
        table=str(table),
        sources=NO_SOURCE,
        query=query,
        on="target.order_id = source.order_id",
        when_matched=(MergeClause(update="*"),),
        when_not_matched=(MergeClause(insert="*"),),
    )
    merge(spark, request)


def measure(name: str, operation: Callable[[Path], object]) -> TimedPair:
    """Measure an operation on new copies of both tables, and return the times."""
    pair = TimedPair(name=name, peer="without row tracking", target=TARGET)
    copies = {table: FOLDER / f"{table.name}-copy" for table in (TRACKED, PLAIN)}

    def prepare() -> None:
        for table, copy in copies.items():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(table, copy, copy_function=os.link)

    pair.run(lambda: operation(copies[TRACKED]), lambda: operation(copies[PLAIN]), rounds=ROUNDS, prepare=prepare)
    return pair


def main() -> None:
    """Measure all operations, and print a table."""
    spark = session({"spark.sql.shuffle.partitions": "4"})
    if not TRACKED.exists():
        make_tables(spark)
    condition = f"order_id % {ROWS_PER_CHANGE} = 17"
    print_table(
        [
            measure("append of an eighth", lambda table: append(spark, table, ROWS, ROWS // FILES, {})),
            measure("merge of 1%, spread", lambda table: merge_rows(spark, table)),
            measure(
                "update of 0.1%",
                lambda table: update(spark, UpdateRequest(table=str(table), condition=condition, set={"score": "2"})),
            ),
            measure(
                "delete of 0.1%", lambda table: delete(spark, DeleteRequest(table=str(table), condition=condition))
            ),
            measure("optimize", lambda table: optimize(spark, OptimizeRequest(table=str(table)))),
        ]
    )
    spark.stop()


if __name__ == "__main__":
    main()
