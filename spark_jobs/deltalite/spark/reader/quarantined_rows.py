"""The rows of a quarantine table."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.spark.columns.types import spark_type, to_spark


def quarantined_rows(
    spark: SparkSession, rows: DataFrame | None, constants: Mapping[str, str | int], columns: StructType
) -> DataFrame:
    """Return rows with all columns of a quarantine table.

    Args:
        spark: the session.
        rows: the rejected rows with some of the columns; None for no row.
        constants: the values of columns that are the same in each row. A timestamp is in milliseconds since 1970 (UTC).
        columns: the columns of the table. Those without a value are null.
    """
    if rows is None:
        return spark.createDataFrame([], to_spark(columns))

    def value_of(column: StructField) -> Column:
        if column.name not in constants:
            return F.col(column.name) if column.name in rows.columns else F.lit(None)
        constant = F.lit(constants[column.name])
        return F.timestamp_millis(constant) if column.type == PrimitiveType("timestamp") else constant

    return rows.select(*(value_of(column).cast(spark_type(column.type)).alias(column.name) for column in columns))
