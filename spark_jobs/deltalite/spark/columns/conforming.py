"""Conversion of rows to a table's columns, their order and their types.

The schemas are known to fit (`protocol.schema_evolution`), so no value is lost. Types are widened, missing columns and
members become null, and structs are rebuilt by name at every depth. A null struct stays null.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType
from deltalite.spark.columns.assigning import assigned
from deltalite.spark.columns.names import named
from deltalite.spark.columns.types import spark_type


def conformed(frame: DataFrame, have: StructType, want: StructType) -> DataFrame:
    """Convert the rows of `frame` from the schema `have` to the schema `want`."""
    return frame.select(*conformed_columns(have, want))


def conformed_columns(have: StructType, want: StructType, column_of: Callable[[str], Column] = named) -> list[Column]:
    """Return the columns of `want`, computed from those of `have`; `column_of` returns a column by name."""
    columns = []
    for field in want:
        source = have.find(field.name)
        if source is None:
            column = F.lit(None).cast(spark_type(field.type))
        else:
            column = assigned(column_of(source.name), source.type, field.type, field.name, fills=True)
        columns.append(column.alias(field.name))
    return columns
