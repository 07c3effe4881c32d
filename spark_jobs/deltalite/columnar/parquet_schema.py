"""The schema of a Parquet file that another writer made, as Delta's.

Arrow's reading of a footer is taken, but for what it does not tell: a timestamp stored as int96 is an instant, as all
engines that write it mean it, and times in nanoseconds are refused, which Arrow has and Spark does not read. Nothing is
NOT NULL: that a file has no null says nothing of the next one. Protocol: Schema Serialization Format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.arrow_schema import type_from_arrow
from deltalite.protocol.schema import StructType
from deltalite.protocol.schema_evolution import new_table_schema

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_INSTANT = pa.timestamp("us", tz="UTC")


def schema_of_file(footer: pq.FileMetaData) -> StructType:
    """The columns of a file, each of which may be null.

    Raises:
        SchemaMismatchError: a column has a type that no Delta table has, or two differ only in case.
    """
    leaves = iter(range(footer.num_columns))
    fields = [_field(field, footer, leaves, field.name) for field in footer.schema.to_arrow_schema()]
    found = type_from_arrow(pa.struct(fields), "")
    assert isinstance(found, StructType)  # noqa: S101  a struct is one
    return new_table_schema(found)


def int96_leaves(footer: pq.FileMetaData) -> tuple[int, ...]:
    """The places of the columns that are stored as int96."""
    return tuple(at for at in range(footer.num_columns) if footer.schema.column(at).physical_type == "INT96")


def _field(field: pa.Field, footer: pq.FileMetaData, leaves: Iterator[int], path: str) -> pa.Field:
    return pa.field(field.name, _type(field.type, footer, leaves, path), field.nullable)


def _type(data_type: pa.DataType, footer: pq.FileMetaData, leaves: Iterator[int], path: str) -> pa.DataType:
    """The type, in which each leaf is held against its Parquet column; leaves come in the file's order."""
    stored = data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type
    if types.is_struct(stored):
        return pa.struct([_field(f, footer, leaves, f"{path}.{f.name}") for f in stored])
    if types.is_map(stored):
        key = _type(stored.key_type, footer, leaves, f"{path}.key")
        return pa.map_(key, _field(stored.item_field, footer, leaves, f"{path}.value"))
    if types.is_nested(stored):
        return pa.list_(_field(stored.value_field, footer, leaves, f"{path}.element"))
    column = footer.schema.column(next(leaves))
    if column.physical_type == "INT96":
        return _INSTANT
    if types.is_timestamp(stored) and json.loads(column.logical_type.to_json()).get("timeUnit") == "nanoseconds":
        raise SchemaMismatchError(
            f"Column '{path}' holds times in nanoseconds, which Delta Lake cannot store.",
            remedy="Rewrite the files with microseconds.",
        )
    return stored
