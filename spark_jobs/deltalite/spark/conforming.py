"""Bringing rows into a table's shape: its columns, its order, its types.

The schemas have been found to fit (`protocol.schema_evolution`), so nothing is lost here: types are widened, missing
columns and members become null, structs are rebuilt by name at every depth. A null struct stays null.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType
from deltalite.spark.assigning import assigned
from deltalite.spark.columns import named
from deltalite.spark.types import spark_type


def conformed(frame: DataFrame, have: StructType, want: StructType) -> DataFrame:
    """The rows of `frame`, whose schema is `have`, as rows of `want`."""
    return frame.select(*conformed_columns(have, want))


def conformed_columns(have: StructType, want: StructType, column_of: Callable[[str], Column] = named) -> list[Column]:
    """The columns of `want` made of those of `have`, which `column_of` gives by name."""
    columns = []
    for field in want:
        theirs = have.find(field.name)
        if theirs is None:
            column = F.lit(None).cast(spark_type(field.type))
        else:
            column = assigned(column_of(theirs.name), theirs.type, field.type, field.name, fills=True)
        columns.append(column.alias(field.name))
    return columns
