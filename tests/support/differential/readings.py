"""Readings of a table by each engine, as JSON texts. Equal values have equal texts.

delta-spark answers with JSON values; `as_json` gives the values of this library the same form. Null, NaN and -0.0 have
different texts from each other and from all other values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import VariantVal

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.protocol.arrow_schema import VARIANT
from deltalite.spark.runtime.errors import reading_table
from tests.support.differential.tables import KEY, name_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Texts = list[str]
RowIds = Mapping[int, tuple[int, int]]
"""The row id and the row commit version of each row, by its key."""


def json_texts(rows: Iterable[Sequence[Any]]) -> Texts:
    """The JSON texts of rows from delta-spark, in a fixed order."""
    return sorted(json.dumps(list(row)) for row in rows)


def rows_of(path: str) -> Texts:
    """The rows of the newest version, read by this library without Spark."""
    return _arrow_texts(DeltaTable(path).to_arrow())


def rows_sql(path: str) -> str:
    """The query with which delta-spark reads the same rows."""
    return f"SELECT * FROM {name_of(path)}"


def changes_of(path: str, first: int, last: int) -> Texts:
    """The changes of the versions from `first` to `last`. Each has its change type, but no version and no time."""
    batches = list(DeltaTable(path, version=last).changes(first, last))
    if not batches:
        return []
    return _arrow_texts(pa.Table.from_batches(batches).drop_columns(["_commit_version", "_commit_timestamp"]))


def changes_sql(path: str, first: int, last: int) -> str:
    """The query with which delta-spark reads the same changes."""
    feed = f"table_changes_by_path('{path}', {first}, {last})"
    return f"SELECT * EXCEPT (_commit_version, _commit_timestamp) FROM {feed}"


def row_ids_of(path: str) -> RowIds:
    """The row ids and row commit versions of a table with row tracking, read by this library without Spark."""
    rows = DeltaTable(path).to_arrow(columns=[KEY, "_row_id", "_row_commit_version"])
    return {key: (row_id, version) for key, row_id, version in zip(*rows.to_pydict().values(), strict=True)}


def row_ids_sql(path: str) -> str:
    """The query with which delta-spark reads the same row ids."""
    return f"SELECT {KEY}, _metadata.row_id, _metadata.row_commit_version FROM {name_of(path)}"


def keys_where(spark: SparkSession, path: str, condition: str) -> list[int]:
    """The keys of the rows that satisfy a condition, read by this library on Spark."""
    with reading_table(path):
        return sorted(row[0] for row in delta.read(spark, path).where(condition).select(KEY).collect())


def keys_sql(path: str, condition: str) -> str:
    """The query with which delta-spark reads the same keys."""
    return f"SELECT {KEY} FROM {name_of(path)} WHERE {condition}"


def _arrow_texts(table: pa.Table) -> Texts:
    columns = [list(map(partial(as_json, data_type=column.type), column.to_pylist())) for column in table.columns]
    return sorted(json.dumps(list(row)) for row in zip(*columns, strict=True))


def as_json(value: Any, data_type: pa.DataType) -> Any:
    """A value of an Arrow column in the form of delta-spark's answers."""
    if value is None:
        return None
    if data_type == VARIANT:
        return str(VariantVal(value["value"], value["metadata"]))
    if pa.types.is_struct(data_type):
        return [as_json(value[member.name], member.type) for member in data_type]
    if pa.types.is_map(data_type):
        return {str(key): as_json(member, data_type.item_type) for key, member in value}
    if pa.types.is_list(data_type):
        return [as_json(element, data_type.value_type) for element in value]
    match value:
        case datetime():
            return str(value.replace(tzinfo=None))
        case date() | Decimal() | bytes():
            return str(value)
        case _:
            return value
