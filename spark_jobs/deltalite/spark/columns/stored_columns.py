"""Conversion of the table's columns to those of its data files: the inverse of `presenting`.

With column mapping the files have physical names at every depth, and each field has an id. Spark writes the ids into
the Parquet schema from the metadata of the columns. A cast by position renames the members of structs and sets the ids.
Protocol: Writer Requirements for Column Mapping.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.column_mapping import MappingMode, TableSchema, field_id
from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.presenting import with_field_ids
from deltalite.spark.columns.types import spark_type


def stored_columns(table: TableSchema) -> list[Column]:
    """Return the physical columns, partition columns included, computed from the logical columns and in their order."""
    if table.mode is MappingMode.NONE:
        return [column_named(field.name) for field in table.logical]
    columns = []
    for logical, physical in zip(table.logical, table.physical, strict=True):
        column = column_named(logical.name)
        if isinstance(physical.type, StructType | ArrayType | MapType):
            column = column.cast(with_field_ids(spark_type(physical.type), physical.type))
        columns.append(stored_as(physical, column))
    return columns


def stored_as(physical: StructField, column: Column) -> Column:
    """Return the column with the name of the physical field, and with the id of the field if there is one."""
    number = field_id(physical.metadata)
    return column.alias(physical.name, metadata={} if number is None else {"parquet.field.id": number})


def may_be_empty(field: StructField) -> bool:
    """Whether a value of the column can have no characters or bytes. In a partition column, readers then get null."""
    return field.type in (PrimitiveType("string"), PrimitiveType("binary"))


def as_in_log(field: StructField) -> Column:
    """Return the values of a partition column as readers get them from the log, in which an empty text is null."""
    column = column_named(field.name)
    if not may_be_empty(field):
        return column
    return stored_as(field, F.when(F.length(column) > 0, column))
