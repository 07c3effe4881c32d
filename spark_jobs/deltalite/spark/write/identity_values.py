"""Values of IDENTITY columns for new rows, without gaps.

The rows are persisted during the write, because they are counted before they are numbered. Each partition then has its
own range of numbers. If a lost partition returns more rows when it is computed again, the write fails, so no value is
used twice. Tables without IDENTITY columns skip all of this. Protocol: Identity Columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.identity_columns import IdentityColumn
from deltalite.spark.columns.names import named
from deltalite.spark.runtime.errors import SPARK_ERRORS, data_error

# The number of a row in its partition, in the lower bits of `monotonically_increasing_id`.
_ROW_BITS = (1 << 33) - 1


@contextmanager
def fill_identities(rows: DataFrame, columns: Sequence[IdentityColumn]) -> Iterator[tuple[DataFrame, int]]:
    """Yield the rows with values in these columns, and the number of rows (0 without such columns).

    Raises:
        ConstraintViolationError: a column has no values left.
        SourceError: a row cannot be computed.
    """
    if not columns:
        yield rows, 0
        return
    persisted = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = _counts(persisted)
        total = sum(counts)
        for column in columns:
            _ = total and column.last(total)  # raises if the column has no values left
        yield _with_values(persisted, columns, counts), total
    finally:
        persisted.unpersist()


def _counts(rows: DataFrame) -> list[int]:
    """Return the number of rows in each partition."""
    try:
        counts = rows.groupBy(F.spark_partition_id().alias("at")).count().collect()
    except SPARK_ERRORS as error:
        if (typed := data_error(error)) is None:
            raise
        raise typed from error
    by_partition = {row[0]: row[1] for row in counts}
    return [by_partition.get(partition, 0) for partition in range(max(by_partition, default=-1) + 1)]


def _with_values(rows: DataFrame, columns: Sequence[IdentityColumn], counts: Sequence[int]) -> DataFrame:
    offsets = list(accumulate(counts, initial=0))[:-1]
    at = F.spark_partition_id() + 1
    row = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_BITS))
    message = F.lit("A partition of the rows has grown while identity values were assigned.")
    in_range = F.coalesce(F.try_element_at(F.lit(list(counts)), at), F.lit(0)) > row
    number = F.when(in_range, F.element_at(F.lit(offsets), at) + row).otherwise(F.raise_error(message).cast("long"))
    values = {c.name: (F.lit(c.first) + number * F.lit(c.step)).cast("long").alias(c.name) for c in columns}
    return rows.select(*[values.get(name, named(name)) for name in rows.columns])
