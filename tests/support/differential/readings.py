"""Readings of a table, as JSON texts that are equal if the values are.

delta-spark answers with JSON values; `as_text` gives the values of this library the same form. A null, a NaN, and -0.0
each have their own text.
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


def answered(rows: Iterable[Sequence[Any]]) -> Texts:
    """The rows that delta-spark answered, in a fixed order."""
    return sorted(json.dumps(list(row)) for row in rows)


def rows_of(path: str) -> Texts:
    """The rows of the newest version, read without Spark."""
    return _texts(DeltaTable(path).to_arrow())


def rows_sql(path: str) -> str:
    """The query of `rows_of`."""
    return f"SELECT * FROM {name_of(path)}"


def changes_of(path: str, first: int, last: int) -> Texts:
    """The changes of versions, both inclusive, with their types and without their versions and times."""
    batches = list(DeltaTable(path, version=last).changes(first, last))
    if not batches:
        return []
    return _texts(pa.Table.from_batches(batches).drop_columns(["_commit_version", "_commit_timestamp"]))


def changes_sql(path: str, first: int, last: int) -> str:
    """The query of `changes_of`."""
    feed = f"table_changes_by_path('{path}', {first}, {last})"
    return f"SELECT * EXCEPT (_commit_version, _commit_timestamp) FROM {feed}"


def row_ids_of(path: str) -> RowIds:
    """The ids of the rows of a table with row tracking."""
    rows = DeltaTable(path).to_arrow(columns=[KEY, "_row_id", "_row_commit_version"])
    return {key: (row_id, version) for key, row_id, version in zip(*rows.to_pydict().values(), strict=True)}


def row_ids_sql(path: str) -> str:
    """The query of `row_ids_of`."""
    return f"SELECT {KEY}, _metadata.row_id, _metadata.row_commit_version FROM {name_of(path)}"


def keys_where(spark: SparkSession, path: str, condition: str) -> list[int]:
    """The keys of the rows that satisfy a condition, read by Spark."""
    with reading_table(path):
        return sorted(row[0] for row in delta.read(spark, path).where(condition).select(KEY).collect())


def keys_sql(path: str, condition: str) -> str:
    """The query of `keys_where`."""
    return f"SELECT {KEY} FROM {name_of(path)} WHERE {condition}"


def _texts(table: pa.Table) -> Texts:
    columns = [list(map(partial(as_json, kind=column.type), column.to_pylist())) for column in table.columns]
    return sorted(json.dumps(list(row)) for row in zip(*columns, strict=True))


def as_json(value: Any, kind: pa.DataType) -> Any:
    """A value of an Arrow column in the form of delta-spark's answers."""
    if value is None:
        return None
    if kind == VARIANT:
        return str(VariantVal(value["value"], value["metadata"]))
    if pa.types.is_struct(kind):
        return [as_json(value[member.name], member.type) for member in kind]
    if pa.types.is_map(kind):
        return {str(key): as_json(member, kind.item_type) for key, member in value}
    if pa.types.is_list(kind):
        return [as_json(element, kind.value_type) for element in value]
    match value:
        case datetime():
            return str(value.replace(tzinfo=None))
        case date() | Decimal() | bytes():
            return str(value)
        case _:
            return value
