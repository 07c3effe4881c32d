"""Partition values: the log's text as typed columns, made by Spark itself.

Dates and times reach Spark in one spelling (`canonical_text`), so that both readers give a text the same value, and
Spark casts all texts: its years reach beyond those of Python's calendar. A time without a zone means UTC, whatever
the session's clock says. Protocol: Partition Value Serialization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import CorruptLogError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.partition_values import canonical_text, in_file, partition_text
from deltalite.protocol.schema import DataType, PrimitiveType, StructField
from deltalite.spark.columns import named
from deltalite.spark.types import spark_type

Texts = tuple[str | None, ...]
# A date, or a time without a zone, with the blanks that Spark ignores.
_ZONELESS = r"^[\x00-\x20\x7f]*[-+]?\d+(?:-\d+){0,2}(?:[ T][\d:.]+)?[\x00-\x20\x7f]*$"


def partition_fields(table: TableSchema) -> dict[str, StructField]:
    """The partition columns as physical fields, by the key that they have in the log, in the table's order."""
    by_name = {f.name: f for f in table.physical}
    return {key: by_name[name] for name, key in table.partition_keys.items()}


def partition_texts(files: pa.Table, fields: Mapping[str, StructField]) -> list[Texts]:
    """The values of each file as text (`canonical_text`). Each distinct combination is checked once.

    Raises:
        CorruptLogError: a text is no value of its column; the message names the file, the column and the text.
    """
    if not fields:
        return [()] * files.num_rows
    known: dict[Texts, Texts] = {}
    rows = []
    for pairs, path in zip(files["partitionValues"].to_pylist(), files["path"].to_pylist(), strict=True):
        values = dict(pairs or ())
        texts = tuple(partition_text(values, key) or None for key in fields)
        if texts not in known:
            known[texts] = tuple(
                _checked(text, f, key, path) for text, (key, f) in zip(texts, fields.items(), strict=True)
            )
        rows.append(known[texts])
    return rows


def with_typed_columns(frame: DataFrame, fields: Mapping[str, StructField]) -> DataFrame:
    """The frame with the text columns that are called like the fields cast to their types.

    Raises:
        CorruptLogError: a text is no value of its column.
    """
    if not fields:
        return frame
    own = {f.name: f.type for f in fields.values()}
    typed = {name: _typed(named(name), data_type) for name, data_type in own.items()}
    wrong = [
        F.when(named(name).isNotNull() & column.isNull(), F.concat(F.lit(f"{name}: "), named(name)))
        for name, column in typed.items()
    ]
    found = frame.select(F.coalesce(*wrong).alias("wrong")).where("wrong IS NOT NULL").take(1)
    if found:
        raise CorruptLogError(
            f"The log has a partition value that does not fit the type of its column; {found[0][0]!r}.",
            remedy="Repair the log with the engine that wrote it.",
        )
    return frame.select(*[typed.get(name, named(name)).alias(name) for name in frame.columns])


def typed_values(spark: SparkSession, texts: Sequence[Texts], fields: Mapping[str, StructField]) -> DataFrame:
    """One row for each combination, in their order, with a column for each field."""
    columns = {f.name: pa.array([row[n] for row in texts], pa.string()) for n, f in enumerate(fields.values())}
    return with_typed_columns(spark.createDataFrame(pa.table(columns)), fields)


def typed_partition_value(values: Column, key: str, data_type: DataType) -> Column:
    """The value of one partition column in a map of texts, as `partitionValues` of the log has them.

    A text that is no value of the type is null.
    """
    lowered = key.lower()
    in_another_case = F.map_values(F.map_filter(values, lambda name, _: F.lower(name) == lowered))
    text = F.nullif(F.coalesce(F.try_element_at(values, F.lit(key)), F.get(in_another_case, F.lit(0))), F.lit(""))
    if data_type == PrimitiveType("timestamp"):
        in_utc = F.concat(text.try_cast("timestamp_ntz").cast("string"), F.lit("Z"))
        text = F.when(text.rlike(_ZONELESS), in_utc).otherwise(text)
    return _typed(text, data_type)


def _checked(text: str | None, field: StructField, column: str, path: str) -> str | None:
    try:
        return canonical_text(text, field.type)
    except CorruptLogError as error:
        raise in_file(error, column, path) from error


def _typed(column: Column, data_type: DataType) -> Column:
    match data_type:
        case PrimitiveType("string"):
            return column
        case PrimitiveType("binary"):
            return column.cast("binary")
        case _:
            return column.try_cast(spark_type(data_type))
