"""Frames with few rows: they are broadcast to every executor, or written into one file.

Sizes are measured on computed rows, because the schema does not tell the length of a text. If the size were only
guessed, a large broadcast could fill the driver's memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.spark.columns.names import column_named

# A broadcast takes this much memory in each executor, and briefly in the driver.
_MAX_BROADCAST_BYTES = 64 * 1024 * 1024
_MAX_ONE_PARTITION_BYTES = 128 * 1024 * 1024
# The approximate bytes of a row's address in memory: the number of the file, the position and some numbers.
_ADDRESS_BYTES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A number of rows, and their size in bytes."""

    count: int
    size_bytes: int

    def with_addresses(self, count: int) -> Size:
        """Estimate the size of `count` rows of the same average size, each with an address."""
        row_size = self.size_bytes // self.count if self.count else 0
        return Size(count=count, size_bytes=count * (row_size + _ADDRESS_BYTES))

    @classmethod
    def of_addresses(cls, count: int) -> Size:
        """Estimate the size of `count` addresses without rows."""
        return Size(count=0, size_bytes=0).with_addresses(count)


def row_bytes(schema: spark_types.StructType) -> Column:
    """Return a column with the approximate size of a row in bytes."""
    total = F.lit(0).cast("long")
    for field in schema.fields:
        column = column_named(field.name)
        match field.dataType:
            case spark_types.StringType() | spark_types.BinaryType():
                total = total + F.coalesce(F.octet_length(column), F.lit(0))
            case spark_types.StructType() | spark_types.ArrayType() | spark_types.MapType() | spark_types.VariantType():
                total = total + F.coalesce(F.octet_length(F.to_json(column)), F.lit(0))
            case _:
                total = total + F.lit(16)
    return total


def measure_size(rows: DataFrame) -> Size:
    """Measure and return the size of computed rows."""
    totals: Any = rows.agg(F.count(F.lit(1)), F.sum(row_bytes(rows.schema))).collect()[0]
    return Size(count=totals[0], size_bytes=totals[1] or 0)


def is_small(size: Size) -> bool:
    """Whether rows of this size are broadcast."""
    return size.size_bytes <= _MAX_BROADCAST_BYTES


def broadcast_if_small(rows: DataFrame, size: Size) -> DataFrame:
    """Return the rows, with a broadcast hint if they are small enough."""
    return F.broadcast(rows) if is_small(size) else rows


def one_partition_if_small(rows: DataFrame, size: Size) -> DataFrame:
    """Return the rows, in one partition if they fit into one file."""
    return rows.repartition(1) if size.size_bytes <= _MAX_ONE_PARTITION_BYTES else rows
