"""Partition values: the log's text as typed columns, made by Spark itself.

Texts are checked by `parse_partition_value` and cast by Spark, so that no value has to pass through a Python type that
cannot hold it: Spark's years reach beyond those of Python's calendar. A time without a zone means UTC, whatever the
session's clock says. Protocol: Partition Value Serialization.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.partition_values import parse_partition_value, partition_text
from deltalite.protocol.schema import DataType, PrimitiveType, StructField
from deltalite.spark.columns import named
from deltalite.spark.types import spark_type

Texts = tuple[str | None, ...]
_ZONELESS_TEXT = r"^([-+]?\d+-\d+-\d+)(?:[ T]([\d:.]+))?$"
_ZONELESS = re.compile(_ZONELESS_TEXT)


def partition_fields(table: TableSchema) -> dict[str, StructField]:
    """The partition columns as physical fields, by the key that they have in the log, in the table's order."""
    by_name = {f.name: f for f in table.physical}
    return {key: by_name[name] for name, key in table.partition_keys.items()}


def partition_texts(files: pa.Table, fields: Mapping[str, StructField]) -> list[Texts]:
    """The values of each file as text; the empty string is null. Each distinct combination is checked once.

    Raises:
        CorruptLogError: a text is no value of its column.
    """
    if not fields:
        return [()] * files.num_rows
    known: dict[Texts, Texts] = {}
    rows = []
    for pairs in files["partitionValues"].to_pylist():
        values = dict(pairs or ())
        texts = tuple(partition_text(values, key) or None for key in fields)
        if texts not in known:
            known[texts] = tuple(_checked(text, f.type) for text, f in zip(texts, fields.values(), strict=True))
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

    A text that is no value of the type fails the query.
    """
    lowered = key.lower()
    in_another_case = F.map_values(F.map_filter(values, lambda name, _: F.lower(name) == lowered))
    text = F.nullif(F.coalesce(F.try_element_at(values, F.lit(key)), F.get(in_another_case, F.lit(0))), F.lit(""))
    if data_type == PrimitiveType("timestamp"):
        day, clock = F.regexp_extract(text, _ZONELESS_TEXT, 1), F.regexp_extract(text, _ZONELESS_TEXT, 2)
        time = F.when(clock == "", F.lit("00:00:00")).otherwise(clock)
        text = F.when(day != "", F.concat(day, F.lit(" "), time, F.lit("Z"))).otherwise(text)
    typed = _typed(text, data_type)
    wrong = F.raise_error(F.concat(F.lit(f"The log has a value of the partition column '{key}' that is none: "), text))
    return F.when(text.isNotNull() & typed.isNull(), wrong.cast(spark_type(data_type))).otherwise(typed)


def _checked(text: str | None, data_type: DataType) -> str | None:
    with contextlib.suppress(UnsupportedFeatureError):  # a year that Spark has and Python has not
        parse_partition_value(text, data_type)
    if text is not None and data_type == PrimitiveType("timestamp") and (found := _ZONELESS.fullmatch(text)):
        return f"{found[1]} {found[2] or '00:00:00'}Z"
    return text


def _typed(column: Column, data_type: DataType) -> Column:
    match data_type:
        case PrimitiveType("string"):
            return column
        case PrimitiveType("binary"):
            return column.cast("binary")
        case _:
            return column.try_cast(spark_type(data_type))
