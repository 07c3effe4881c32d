"""Conversion of the schema of another writer's Parquet file to a Delta schema.

The conversion uses Arrow's schema, with two exceptions. A timestamp stored as int96 is an instant, as in all engines
that write int96. Timestamps in nanoseconds are rejected, because Spark does not read them. No column is NOT NULL,
because other files may have nulls. Protocol: Schema Serialization Format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.arrow_schema import storage_type_of, type_from_arrow
from deltalite.protocol.schema import StructType
from deltalite.protocol.schema_evolution import new_table_schema

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_INSTANT = pa.timestamp("us", tz="UTC")
# Arrow reads a variant as a struct. Spark 4.0 to 4.2 name the type only in Spark's schema, which Spark adds to a file.
_VARIANT_ANNOTATION = "(Variant("
_SPARK_SCHEMA, _SPARK_VARIANT = b"org.apache.spark.sql.parquet.row.metadata", b'"type":"variant"'


def schema_of_file(footer: pq.FileMetaData) -> StructType:
    """Return the columns of a file, all nullable.

    Raises:
        SchemaMismatchError: a column has variants or a type that Delta does not support, or two names differ only in
            case.
    """
    if _VARIANT_ANNOTATION in str(footer.schema) or _SPARK_VARIANT in (footer.metadata or {}).get(_SPARK_SCHEMA, b""):
        raise SchemaMismatchError(
            "It has a column with variants, which this release does not support in a file outside of a Delta table.",
            remedy="Write the rows to a new table with DeltaWriteOperator.",
        )
    leaves = iter(range(footer.num_columns))
    fields = [_corrected_field(field, footer, leaves, field.name) for field in footer.schema.to_arrow_schema()]
    struct = type_from_arrow(pa.struct(fields), "")
    assert isinstance(struct, StructType)  # noqa: S101  the Delta type of an Arrow struct is a struct
    return new_table_schema(struct)


def int96_leaves(footer: pq.FileMetaData) -> tuple[int, ...]:
    """Return the positions of the Parquet columns that are stored as int96."""
    positions = range(footer.num_columns)
    return tuple(position for position in positions if footer.schema.column(position).physical_type == "INT96")


def _corrected_field(field: pa.Field, footer: pq.FileMetaData, leaves: Iterator[int], path: str) -> pa.Field:
    return pa.field(field.name, _corrected_type(field.type, footer, leaves, path), field.nullable)


def _corrected_type(data_type: pa.DataType, footer: pq.FileMetaData, leaves: Iterator[int], path: str) -> pa.DataType:
    """Return the type, corrected by the Parquet column of each leaf; `leaves` are in the file's order."""
    storage_type = storage_type_of(data_type)
    if types.is_struct(storage_type):
        return pa.struct([_corrected_field(f, footer, leaves, f"{path}.{f.name}") for f in storage_type])
    if types.is_map(storage_type):
        key = _corrected_type(storage_type.key_type, footer, leaves, f"{path}.key")
        return pa.map_(key, _corrected_field(storage_type.item_field, footer, leaves, f"{path}.value"))
    if types.is_nested(storage_type):
        return pa.list_(_corrected_field(storage_type.value_field, footer, leaves, f"{path}.element"))
    column = footer.schema.column(next(leaves))
    if column.physical_type == "INT96":
        return _INSTANT
    if types.is_timestamp(storage_type) and json.loads(column.logical_type.to_json()).get("timeUnit") == "nanoseconds":
        raise SchemaMismatchError(
            f"Column '{path}' has timestamps in nanoseconds, which Delta Lake cannot store.",
            remedy="Rewrite the files with microseconds.",
        )
    return storage_type
