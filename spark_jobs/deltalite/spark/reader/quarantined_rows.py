"""The rows of a quarantine table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import spark_type, to_spark

RECORD = "record"
# A record keeps NULL values and microseconds. Spark's pattern `XXX` is the offset from UTC, such as `Z`.
_JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


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


def all_rejected(bad_records: DataFrame, rejected_rows: DataFrame | None) -> DataFrame:
    """Return the bad records of files and the rows that audits reject. Columns that one of them lacks are null."""
    if rejected_rows is None:
        return bad_records
    return bad_records.unionByName(rejected_rows, allowMissingColumns=True)


def rows_as_records(rows: DataFrame, names: Sequence[str], columns: Mapping[str, str]) -> DataFrame:
    """Return each row as the text of a JSON object in the column `record`, with other columns of a quarantine table.

    Timestamps are in UTC and have microseconds. Bytes that are not UTF-8 are replaced, because other readers reject
    such a text.

    Args:
        rows: the rows.
        names: the names of the columns that the object has.
        columns: columns of `rows` by the name of the column in the quarantine table.
    """
    record = F.make_valid_utf8(F.to_json(F.struct(*map(column_named, names)), _JSON_OPTIONS))
    return rows.select(*(column_named(column).alias(name) for name, column in columns.items()), record.alias(RECORD))
