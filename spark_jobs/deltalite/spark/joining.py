"""What is done differently with few rows: they are brought to every executor, or into one file.

Sizes are measured on rows that have been computed, since a type says little of a text: a broadcast of what is larger
than it seems would fill the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.spark.columns import named

# In each executor, and for a moment in the driver.
_MOST_BROADCAST_BYTES = 64 * 1024 * 1024
_MOST_GATHERED_BYTES = 128 * 1024 * 1024
# What a file as Spark spells it, a position and some numbers take beside the columns of a row.
_PLACE_BYTES = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A number of rows, and the bytes that they take."""

    count: int
    size_bytes: int

    def of(self, count: int) -> Size:
        """About the size of `count` rows like these, each with its place."""
        each = self.size_bytes // self.count if self.count else 0
        return Size(count=count, size_bytes=count * (each + _PLACE_BYTES))

    @classmethod
    def of_places(cls, count: int) -> Size:
        """About the size of places alone."""
        return Size(count=0, size_bytes=0).of(count)


def row_bytes(schema: spark_types.StructType) -> Column:
    """About the bytes of a row of the schema."""
    total = F.lit(0).cast("long")
    for field in schema.fields:
        column = named(field.name)
        match field.dataType:
            case spark_types.StringType() | spark_types.BinaryType():
                total = total + F.coalesce(F.octet_length(column), F.lit(0))
            case spark_types.StructType() | spark_types.ArrayType() | spark_types.MapType() | spark_types.VariantType():
                total = total + F.coalesce(F.octet_length(F.to_json(column)), F.lit(0))
            case _:
                total = total + F.lit(16)
    return total


def measured(rows: DataFrame) -> Size:
    """The size of rows that have been computed."""
    found: Any = rows.agg(F.count(F.lit(1)), F.sum(row_bytes(rows.schema))).collect()[0]
    return Size(count=found[0], size_bytes=found[1] or 0)


def broadcast_if_small(rows: DataFrame, size: Size) -> DataFrame:
    """The rows, which go to every executor where they are small enough for that."""
    return F.broadcast(rows) if size.size_bytes <= _MOST_BROADCAST_BYTES else rows


def gathered(rows: DataFrame, size: Size) -> DataFrame:
    """The rows, in one partition where they are no more than fit into one file."""
    return rows.repartition(1) if size.size_bytes <= _MOST_GATHERED_BYTES else rows
