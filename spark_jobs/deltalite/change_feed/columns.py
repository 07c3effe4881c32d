"""The columns that the change data feed adds to those of a table. Protocol: Change Data Files."""

from __future__ import annotations

from dataclasses import replace

from deltalite.protocol.column_mapping import PHYSICAL_NAME, TableSchema
from deltalite.protocol.schema import PrimitiveType, StructField, StructType

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"
CHANGE_COLUMNS = (
    StructField(CHANGE_TYPE, PrimitiveType("string")),
    StructField(COMMIT_VERSION, PrimitiveType("long")),
    StructField(COMMIT_TIMESTAMP, PrimitiveType("timestamp")),
)
"""The columns that the feed adds to those of the table."""
_RESERVED_NAMES = frozenset(column.name for column in CHANGE_COLUMNS)


def reserved_column(schema: StructType) -> str | None:
    """Return the first column of a schema with a name that the change data feed reserves, or None."""
    return next((field.name for field in schema if field.name.lower() in _RESERVED_NAMES), None)


def change_file_schema(schema: TableSchema) -> TableSchema:
    """Return the schema of change data files: the table's columns, then `_change_type`.

    Column mapping does not rename `_change_type`.
    """
    change_type = StructField(CHANGE_TYPE, PrimitiveType("string"), metadata={PHYSICAL_NAME: CHANGE_TYPE})
    return replace(schema, logical=StructType((*schema.logical, change_type)))
