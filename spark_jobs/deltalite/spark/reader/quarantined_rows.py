"""The rows of a quarantine table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import spark_type, to_spark
from deltalite.spark.write.row_marks import is_condition_true

AUDIT, REASON, RECORD = "audit", "reason", "record"
# A record keeps NULL values and microseconds. Timestamps with a time zone are in UTC, and end with `Z`.
_JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
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


def rejected_rows_as_records(
    rows: DataFrame, names: Sequence[str], marks: str, reasons: Mapping[str, str]
) -> DataFrame:
    """Return the columns `AUDIT`, `REASON` and `RECORD` of a quarantine table for rows that audits reject.

    - `AUDIT`: the first audit that rejects the row.
    - `REASON`: the reasons of all audits that reject the row, as a sentence.
    - `RECORD`: the text of a JSON object. Bytes that are not UTF-8 are replaced, because other readers reject them.

    Args:
        rows: the rejected rows.
        names: the names of the columns that the record has.
        marks: the name of the column with the marks of the rows (`row_marks`).
        reasons: why each audit rejects a row, by the name of the audit, in the order of the marks. A reason follows
            the word "The".
    """
    conditions = {name: is_condition_true(marks, number) for number, name in enumerate(reasons)}
    first_audit = F.coalesce(*(F.when(condition, F.lit(name)) for name, condition in conditions.items()))
    all_reasons = (F.when(condition, F.lit(reasons[name])) for name, condition in conditions.items())
    reason = F.concat(F.lit("The "), F.concat_ws(", and the ", *all_reasons), F.lit("."))
    record = F.make_valid_utf8(F.to_json(F.struct(*map(column_named, names)), _JSON_OPTIONS))
    return rows.select(first_audit.alias(AUDIT), reason.alias(REASON), record.alias(RECORD))
