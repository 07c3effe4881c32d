"""Bringing rows into a table's shape: its columns, its order, its types.

The schemas have been found to fit (`protocol.schema_evolution`), so nothing is lost here: types are widened, missing
columns and members become null, structs are rebuilt by name at every depth. A null struct stays null.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import ArrayType, DataType, MapType, StructType
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
            column = _as_type(column_of(theirs.name), theirs.type, field.type)
        columns.append(column.alias(field.name))
    return columns


def _as_type(column: Column, have: DataType, want: DataType) -> Column:
    if have == want:
        return column
    match have, want:
        case StructType(), StructType():
            return _as_struct(column, have, want)
        case ArrayType(element), ArrayType(wanted):
            return F.transform(column, _converter(element, wanted))
        case MapType(key, value), MapType(wanted_key, wanted_value):
            keys = F.transform(F.map_keys(column), _converter(key, wanted_key))
            values = F.transform(F.map_values(column), _converter(value, wanted_value))
            return F.map_from_arrays(keys, values)
        case _:
            return column.cast(spark_type(want))


def _converter(have: DataType, want: DataType) -> Callable[[Column], Column]:
    return lambda item: _as_type(item, have, want)


def _as_struct(column: Column, have: StructType, want: StructType) -> Column:
    members = []
    for field in want:
        theirs = have.find(field.name)
        if theirs is None:
            member = F.lit(None).cast(spark_type(field.type))
        else:
            member = _as_type(column.getField(theirs.name), theirs.type, field.type)
        members.append(member.alias(field.name))
    return F.when(column.isNotNull(), F.struct(*members))
