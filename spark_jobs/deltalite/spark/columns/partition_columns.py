"""Partition values: the text of the log as typed columns, cast by Spark.

Dates and times get one spelling (`canonical_text`), so that the reader with Spark and the reader without it return the
same value. Spark casts all texts, because Spark supports years that Python does not. A time without a time zone is read
as UTC, even if the session has another time zone.
Protocol: Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import CorruptLogError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.partition_values import canonical_text, partition_text, with_location
from deltalite.protocol.schema import DataType, PrimitiveType, StructField
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import spark_type

PartitionTexts = tuple[str | None, ...]
"""The partition values of a file as texts, in the order of the table's partition columns."""
# A date, or a time without a time zone, with the blanks that Spark ignores.
_TIME_WITHOUT_ZONE_PATTERN = r"^[\x00-\x20\x7f]*[-+]?\d+(?:-\d+){0,2}(?:[ T][\d:.]+)?[\x00-\x20\x7f]*$"


def partition_fields(table: TableSchema) -> dict[str, StructField]:
    """Return the partition columns as physical fields, by the key of their values in the log, in the table's order."""
    by_name = {f.name: f for f in table.physical}
    return {key: by_name[name] for name, key in table.partition_keys.items()}


def partition_texts(files: pa.Table, fields: Mapping[str, StructField]) -> list[PartitionTexts]:
    """Return the values of each file as text (`canonical_text`). Check each distinct combination once.

    Raises:
        CorruptLogError: a text does not fit the type of its column. The message names the file, the column and the
            text.
    """
    if not fields:
        return [()] * files.num_rows
    canonical_texts: dict[PartitionTexts, PartitionTexts] = {}
    rows = []
    for pairs, path in zip(files["partitionValues"].to_pylist(), files["path"].to_pylist(), strict=True):
        values = dict(pairs or ())
        texts = tuple(partition_text(values, key) or None for key in fields)
        if texts not in canonical_texts:
            canonical_texts[texts] = tuple(
                _canonical_text_of_file(text, f, key, path)
                for text, (key, f) in zip(texts, fields.items(), strict=True)
            )
        rows.append(canonical_texts[texts])
    return rows


def with_typed_columns(frame: DataFrame, fields: Mapping[str, StructField]) -> DataFrame:
    """Check all texts in one Spark job, and return the frame with a typed column instead of each text column.

    Raises:
        CorruptLogError: a text does not fit the type of its column.
    """
    if not fields:
        return frame
    typed_columns = {f.name: _typed_column(column_named(f.name), f.type) for f in fields.values()}
    wrong_values = [
        F.when(column_named(name).isNotNull() & column.isNull(), F.concat(F.lit(f"{name}: "), column_named(name)))
        for name, column in typed_columns.items()
    ]
    wrong_rows = frame.select(F.coalesce(*wrong_values).alias("wrong")).where("wrong IS NOT NULL").take(1)
    if wrong_rows:
        raise CorruptLogError(
            f"The log has a partition value that does not fit the type of its column: {wrong_rows[0][0]!r}.",
            remedy="Repair the log with the engine that wrote it.",
        )
    return frame.select(*[typed_columns.get(name, column_named(name)).alias(name) for name in frame.columns])


def typed_values(spark: SparkSession, texts: Sequence[PartitionTexts], fields: Mapping[str, StructField]) -> DataFrame:
    """Return a frame with a row for each item of `texts`, in order, and a typed column for each field.

    Raises:
        CorruptLogError: see `with_typed_columns`.
    """
    columns = {f.name: pa.array([row[n] for row in texts], pa.string()) for n, f in enumerate(fields.values())}
    return with_typed_columns(spark.createDataFrame(pa.table(columns)), fields)


def typed_partition_value(values: Column, key: str, data_type: DataType) -> Column:
    """Return the value of one partition column from a map of texts such as the log's `partitionValues`.

    A text that does not fit the type becomes null. If the map lacks `key`, the same key in another case is used.
    """
    lower_key = key.lower()
    in_another_case = F.map_values(F.map_filter(values, lambda name, _: F.lower(name) == lower_key))
    text = F.nullif(F.coalesce(F.try_element_at(values, F.lit(key)), F.get(in_another_case, F.lit(0))), F.lit(""))
    if data_type == PrimitiveType("timestamp"):
        in_utc = F.concat(text.try_cast("timestamp_ntz").cast("string"), F.lit("Z"))
        text = F.when(text.rlike(_TIME_WITHOUT_ZONE_PATTERN), in_utc).otherwise(text)
    return _typed_column(text, data_type)


def _canonical_text_of_file(text: str | None, field: StructField, column: str, path: str) -> str | None:
    try:
        return canonical_text(text, field.type)
    except CorruptLogError as error:
        raise with_location(error, column, path) from error


def _typed_column(column: Column, data_type: DataType) -> Column:
    match data_type:
        case PrimitiveType("string"):
            return column
        case PrimitiveType("binary"):
            return column.cast("binary")
        case _:
            return column.try_cast(spark_type(data_type))
