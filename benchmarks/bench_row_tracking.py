"""The cost of row tracking: the same operations on the same rows, in tables with and without row tracking.

A file with copied rows has two more columns. Their cost is highest in tables with few and small columns. So the
operations run on a table of three columns and on a table of twelve columns.

Each round works on a new table of hard links to the same files. The time does not include making this table. To use
smaller tables, set `DELTALITE_BENCH_ROWS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from linked_copy import copy_with_links
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
TARGET = 1.15
NO_SOURCE = {"source": Source(format="text", path=__file__)}
ROWS_PER_CHANGE = 1_000
# The columns after `order_id`, by the name of the table.
COLUMNS = {
    "3 columns": ("concat('customer-', id) AS customer", "0D AS score"),
    "12 columns": (
        "concat('customer-', id) AS customer",
        "0D AS score",
        "concat('product-', id % 5000) AS product",
        "concat(id * 7 % 9000, ' Main Street') AS street",
        "CAST(id % 700 AS INT) AS city",
        "CAST(id * 13 % 100000 / 100 AS DECIMAL(12, 2)) AS amount",
        "CAST(id % 9 AS INT) AS quantity",
        "date_add(DATE'2026-01-01', CAST(id % 300 AS INT)) AS day",
        "timestamp_seconds(1767225600 + id * 17 % 20000000) AS updated_at",
        "id % 3 = 0 AS is_paid",
        "md5(CAST(id AS STRING)) AS reference",
    ),
}


def rows_query(columns: str, first: int, count: int) -> str:
    """Return a query of `count` rows with `COLUMNS[columns]`. Their ids begin at `first`."""
    selected = ", ".join(("id AS order_id", *COLUMNS[columns]))
    return f"SELECT {selected} FROM range({first}, {first + count}, 1, 2)"  # noqa: S608  constants and numbers only


class Tables:
    """A table with row tracking and one without, with the same rows, and copies of both."""

    def __init__(self, spark: SparkSession, columns: str) -> None:
        self._spark = spark
        self._columns = columns
        folder = FOLDER / columns.replace(" ", "-")
        self._tracked, self._plain = folder / "tracked", folder / "plain"
        if not self._tracked.exists():
            for table, row_tracking in ((self._plain, "false"), (self._tracked, "true")):
                for number in range(FILES // 2):
                    count = 2 * ROWS // FILES
                    self._append(table, number * count, count, {"delta.enableRowTracking": row_tracking})

    def measure(self) -> list[TimedPair]:
        """Measure all operations."""
        condition = f"order_id % {ROWS_PER_CHANGE} = 17"
        operations: dict[str, Callable[[Path], object]] = {
            "append of an eighth": lambda table: self._append(table, ROWS, ROWS // FILES, {}),
            "merge of 1%, spread": self._merge,
            "update of 0.1%": lambda table: update(
                self._spark, UpdateRequest(table=str(table), condition=condition, set={"score": "2"})
            ),
            "delete of 0.1%": lambda table: delete(self._spark, DeleteRequest(table=str(table), condition=condition)),
            "optimize": lambda table: optimize(self._spark, OptimizeRequest(table=str(table))),
        }
        return [self._measure(name, operation) for name, operation in operations.items()]

    def _measure(self, name: str, operation: Callable[[Path], object]) -> TimedPair:
        """Measure an operation on new copies of both tables, and return the times."""
        pair = TimedPair(name=f"{self._columns}: {name}", peer="without row tracking", target=TARGET)
        tracked_copy, plain_copy = (table.with_name(f"{table.name}-copy") for table in (self._tracked, self._plain))

        def prepare() -> None:
            copy_with_links(self._tracked, tracked_copy)
            copy_with_links(self._plain, plain_copy)

        pair.run(lambda: operation(tracked_copy), lambda: operation(plain_copy), rounds=ROUNDS, prepare=prepare)
        return pair

    def _append(self, table: Path, first: int, count: int, properties: dict[str, str]) -> None:
        """Append the rows of `rows_query`. A new table gets the properties."""
        request = WriteRequest(
            table=str(table),
            sources=NO_SOURCE,
            query=rows_query(self._columns, first, count),
            mode=WriteMode.APPEND,
            properties=properties,
        )
        write(self._spark, request)

    def _merge(self, table: Path) -> None:
        """Merge one percent of the rows. Half of the rows are new, the other half is spread over the table."""
        half = ROWS // 200
        changed_rows = rows_query(self._columns, 0, half).replace("id AS order_id", f"id * {ROWS // half} AS order_id")
        request = MergeRequest(
            table=str(table),
            sources=NO_SOURCE,
            query=f"{changed_rows} UNION ALL {rows_query(self._columns, ROWS, half)}",
            on="target.order_id = source.order_id",
            when_matched=(MergeClause(update="*"),),
            when_not_matched=(MergeClause(insert="*"),),
        )
        merge(self._spark, request)


def main() -> None:
    """Measure all operations on both tables, and print a table."""
    spark = session({"spark.sql.shuffle.partitions": "4"})
    print_table([pair for columns in COLUMNS for pair in Tables(spark, columns).measure()])
    spark.stop()


if __name__ == "__main__":
    main()
