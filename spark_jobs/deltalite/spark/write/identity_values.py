"""Values of IDENTITY columns for new rows, without gaps.

The executors keep the rows during the write, because the rows are counted before they are numbered. Each partition then
gets a separate range of numbers. No value is used twice, even if an executor with a partition is lost:

- In `fill_identities`, Spark computes the partition again. If it then has more rows, the write fails.
- In `fill_identities_of_good_rows`, the write fails (`compute_once`).

Protocol: Identity Columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.identity_columns import IdentityColumn
from deltalite.spark.columns.names import column_named
from deltalite.spark.runtime.computed_once import compute_once
from deltalite.spark.runtime.errors import computing_rows
from deltalite.spark.write.row_marks import GOOD

# The lower 33 bits of `monotonically_increasing_id` are the number of a row in its partition.
_ROW_NUMBER_MASK = (1 << 33) - 1


@contextmanager
def fill_identities(rows: DataFrame, columns: Sequence[IdentityColumn]) -> Iterator[tuple[DataFrame, int]]:
    """Yield the rows with values in these columns, and the number of rows (0 without such columns).

    Raises:
        ConstraintViolationError: a column has no values left.
        SourceError, AmbiguousRowsError, StorageError, InvalidRequestError: see `computing_rows`.
    """
    if not columns:
        yield rows, 0
        return
    persisted = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield _number_rows(persisted, columns)
    finally:
        persisted.unpersist()


def fill_identities_of_good_rows(
    rows: DataFrame, columns: Sequence[IdentityColumn], marks: str
) -> tuple[DataFrame, int]:
    """Return all rows, and the number of good rows. Only good rows get values in these columns.

    The rows are computed once, so that a row is either numbered or rejected. `marks` is the column with the marks
    (`row_marks`). Raises the errors of `fill_identities`.
    """
    computed_rows = compute_once(rows)
    is_good = column_named(marks) == GOOD
    numbered_rows, count = _number_rows(computed_rows.where(is_good), columns)
    return numbered_rows.unionByName(computed_rows.where(~is_good)), count


def _number_rows(rows: DataFrame, columns: Sequence[IdentityColumn]) -> tuple[DataFrame, int]:
    """Return the rows with values in the columns, and the number of rows. The executors must keep the rows."""
    counts = _counts_of_partitions(rows)
    total = sum(counts)
    for column in columns if total else ():
        column.last_of_next(total)  # raises if the column has no values left
    return _with_values(rows, columns, counts), total


def _counts_of_partitions(rows: DataFrame) -> list[int]:
    """Return the number of rows in each partition."""
    with computing_rows():
        counts = rows.groupBy(F.spark_partition_id().alias("partition")).count().collect()
    by_partition = {row[0]: row[1] for row in counts}
    return [by_partition.get(partition, 0) for partition in range(max(by_partition, default=-1) + 1)]


def _with_values(rows: DataFrame, columns: Sequence[IdentityColumn], counts: Sequence[int]) -> DataFrame:
    """Return the rows with values in the columns. `counts` has the number of rows in each partition."""
    offsets = list(accumulate(counts, initial=0))[:-1]
    index = F.spark_partition_id() + 1  # SQL counts the items of an array from 1
    row_number = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_NUMBER_MASK))
    message = F.lit("A partition of the rows has grown while identity values were assigned.")
    is_counted = F.coalesce(F.try_element_at(F.lit(list(counts)), index), F.lit(0)) > row_number
    number = F.when(is_counted, F.element_at(F.lit(offsets), index) + row_number).otherwise(
        F.raise_error(message).cast("long")
    )
    values = {c.name: (F.lit(c.next_value) + number * F.lit(c.step)).cast("long").alias(c.name) for c in columns}
    return rows.select(*[values.get(name, column_named(name)) for name in rows.columns])
