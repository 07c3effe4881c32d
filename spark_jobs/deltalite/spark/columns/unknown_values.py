"""Values in columns that the table does not have, at every depth (`protocol.unknown_columns`)."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import ArrayType, DataType, MapType, StructType
from deltalite.protocol.unknown_columns import known_columns
from deltalite.spark.columns.names import column_named


def unknown_name(
    value_of: Callable[[str], Column], schema: StructType, table: StructType, prefix: str = ""
) -> Column | None:
    """Return a STRING column with the path of a value whose column the table does not have.

    The path is null if there is no such value. The result is None if the table has all columns of `schema`.

    Args:
        value_of: returns the value of a column by its name.
        schema: the columns.
        table: the columns of the table.
        prefix: the beginning of the path.
    """
    names = []
    for field in schema:
        value, column, path = value_of(field.name), table.find(field.name), f"{prefix}{field.name}"
        if column is None:
            names.append(F.when(value.isNotNull(), F.lit(path)))
        elif (name := _unknown_name_in(value, field.type, column.type, path)) is not None:
            names.append(name)
    return F.coalesce(*names, F.lit(None).cast("string")) if names else None


def known_values(frame: DataFrame, schema: StructType, table: StructType) -> DataFrame:
    """Return the rows without the columns and members of `schema` that the table does not have.

    The rows may also have columns that `schema` lacks. These columns stay.
    """
    unknown_names = [field.name for field in schema if table.find(field.name) is None]
    values_to_replace = {}
    for field in schema:
        column = table.find(field.name)
        if column is not None and _known_type(field.type, column.type) != field.type:
            values_to_replace[field.name] = _known_value(column_named(field.name), field.type, column.type)
    if values_to_replace:
        frame = frame.withColumns(values_to_replace)
    return frame.drop(*map(column_named, unknown_names)) if unknown_names else frame


def _unknown_name_in(value: Column, data_type: DataType, table_type: DataType, path: str) -> Column | None:
    match data_type, table_type:
        case StructType(), StructType():
            return unknown_name(value.getField, data_type, table_type, f"{path}.")
        case ArrayType(element), ArrayType(table_element):
            return _unknown_name_in_items(value, element, table_element, f"{path}.element")
        case MapType(_, item), MapType(_, table_item):
            return _unknown_name_in_items(F.map_values(value), item, table_item, f"{path}.value")
        case _:
            return None


def _unknown_name_in_items(items: Column, item: DataType, table_item: DataType, path: str) -> Column | None:
    if _known_type(item, table_item) == item:
        return None

    def name_in(value: Column) -> Column:
        name = _unknown_name_in(value, item, table_item, path)
        return F.lit(None).cast("string") if name is None else name

    names = F.transform(items, name_in)
    return F.get(F.filter(names, lambda name: name.isNotNull()), F.lit(0))


def _known_type(data_type: DataType, table_type: DataType) -> DataType:
    """Return the type without the members that the table does not have."""
    match data_type, table_type:
        case StructType(), StructType():
            return known_columns(data_type, table_type)
        case ArrayType(element, contains_null), ArrayType(table_element):
            return ArrayType(_known_type(element, table_element), contains_null)
        case MapType(key, value, contains_null), MapType(_, table_value):
            return MapType(key, _known_type(value, table_value), contains_null)
        case _:
            return data_type


def _known_value(value: Column, data_type: DataType, table_type: DataType) -> Column:
    """Return the value without the members that the table does not have."""
    if _known_type(data_type, table_type) == data_type:
        return value
    match data_type, table_type:
        case StructType(), StructType():
            members = [
                _known_value(value.getField(field.name), field.type, column.type).alias(field.name)
                for field in data_type
                if (column := table_type.find(field.name)) is not None
            ]
            return F.when(value.isNotNull(), F.struct(*members))
        case ArrayType(element), ArrayType(table_element):
            return F.transform(value, lambda item: _known_value(item, element, table_element))
        case MapType(_, item), MapType(_, table_item):
            return F.transform_values(value, lambda _, entry: _known_value(entry, item, table_item))
        case _:
            return value
