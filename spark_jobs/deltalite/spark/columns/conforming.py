"""Conversion of rows to a table's columns, their order and their types.

The caller has checked that the schemas fit (`protocol.schema_evolution`), so no value is lost. Types are widened,
missing columns and members become null, and structs are rebuilt by name at every depth. A null struct stays null.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType
from deltalite.spark.columns.assigning import assign_value
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.types import spark_type


def conform_rows(frame: DataFrame, from_schema: StructType, to_schema: StructType) -> DataFrame:
    """Return the rows of `frame`, converted from the schema `from_schema` to the schema `to_schema`."""
    return frame.select(*conform_columns(from_schema, to_schema))


def conform_columns(
    from_schema: StructType, to_schema: StructType, column_of: Callable[[str], Column] = column_named
) -> list[Column]:
    """Return the columns of `to_schema`, computed from the columns of `from_schema`.

    `column_of` returns a column of the rows by its name.
    """
    columns = []
    for field in to_schema:
        source = from_schema.find(field.name)
        if source is None:
            column = F.lit(None).cast(spark_type(field.type))
        else:
            column = assign_value(column_of(source.name), source.type, field.type, field.name, fills_missing=True)
        columns.append(column.alias(field.name))
    return columns
