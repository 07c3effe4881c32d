"""The columns of source files that the table does not have, at every depth.

A member of a struct counts as a column, also in the elements of an array and in the values of a map. The functions here
do no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.schema_evolution import evolved_schema

_STRING = PrimitiveType("string")


def unknown_columns(schema: StructType, table: StructType, prefix: str = "") -> Iterator[tuple[str, DataType]]:
    """Yield the path and the type of each column of `schema` that the table does not have. `prefix` begins the path."""
    for field in schema:
        column, path = table.find(field.name), f"{prefix}{field.name}"
        if column is None:
            yield path, field.type
        else:
            yield from _unknown_in_type(field.type, column.type, path)


def known_columns(schema: StructType, table: StructType) -> StructType:
    """Return the columns of `schema` that the table has.

    If a struct has no member in common with the table, it gets the table's first member.
    """
    return _with_replaced_columns(schema, table, lambda _: None)


def with_unknown_as_text(schema: StructType, table: StructType) -> StructType:
    """Return the schema with the type STRING for each column that the table does not have.

    So Spark reads each value of such a column as text, whatever the other records contain.
    """
    return _with_replaced_columns(schema, table, lambda field: StructField(field.name, _STRING))


def columns_problem(schema: StructType, table: StructType, *, merge_schema: bool) -> str | None:
    """Return why the columns of a file do not fit the table, as a sentence; None if they fit.

    Columns may be missing. With `merge_schema`, the table may get new columns and wider types.
    """
    unknown = () if merge_schema else tuple(unknown_columns(schema, table))
    if unknown:
        columns = ", ".join(f"{path} ({data_type})" for path, data_type in unknown)
        return f"The table does not have these columns of the file: {columns}."
    nullable_table = StructType(tuple(StructField(field.name, field.type) for field in table))
    try:
        evolved_schema(nullable_table, schema, merge_schema=merge_schema, widens=merge_schema)
    except SchemaMismatchError as error:
        return error.problem
    return None


def hides_columns(inferred: StructType, table: StructType) -> bool:
    """Whether a column has members in the table, but an inferred type without members.

    Spark infers such a type if the records disagree. The type then does not show the members that some records have.
    """
    return any(
        column is not None and _hides_members(field.type, column.type)
        for field in inferred
        for column in [table.find(field.name)]
    )


def _unknown_in_type(data_type: DataType, table: DataType, path: str) -> Iterator[tuple[str, DataType]]:
    match data_type, table:
        case StructType(), StructType():
            yield from unknown_columns(data_type, table, f"{path}.")
        case ArrayType(element), ArrayType(table_element):
            yield from _unknown_in_type(element, table_element, f"{path}.element")
        case MapType(_, value), MapType(_, table_value):
            yield from _unknown_in_type(value, table_value, f"{path}.value")
        case _:
            return


def _with_replaced_columns(
    schema: StructType, table: StructType, replace: Callable[[StructField], StructField | None]
) -> StructType:
    """Return the schema with `replace(field)` for each column that the table does not have, None to leave it out."""
    fields = []
    for field in schema:
        column = table.find(field.name)
        if column is not None:
            new_type = _with_replaced_members(field.type, column.type, replace)
            fields.append(StructField(field.name, new_type, field.nullable, field.metadata))
        elif (new_field := replace(field)) is not None:
            fields.append(new_field)
    return StructType(tuple(fields))


def _with_replaced_members(
    data_type: DataType, table: DataType, replace: Callable[[StructField], StructField | None]
) -> DataType:
    match data_type, table:
        case StructType(), StructType():
            if table.fields and not any(table.find(name) for name in data_type.names):
                # Keep one member of the table, because a struct without members cannot be stored.
                member = StructField(table.fields[0].name, table.fields[0].type)
                data_type = StructType((member, *data_type.fields))
            return _with_replaced_columns(data_type, table, replace)
        case ArrayType(element, contains_null), ArrayType(table_element):
            return ArrayType(_with_replaced_members(element, table_element, replace), contains_null)
        case MapType(key, value, contains_null), MapType(_, table_value):
            return MapType(key, _with_replaced_members(value, table_value, replace), contains_null)
        case _:
            return data_type


def _hides_members(inferred: DataType, table: DataType) -> bool:
    match inferred, table:
        case StructType(), StructType():
            return hides_columns(inferred, table)
        case ArrayType(element), ArrayType(table_element):
            return _hides_members(element, table_element)
        case StructType(fields), MapType(_, value):
            return any(_hides_members(field.type, value) for field in fields)
        case _:
            return _has_struct(table)


def _has_struct(data_type: DataType) -> bool:
    match data_type:
        case StructType():
            return True
        case ArrayType(item) | MapType(_, item):
            return _has_struct(item)
        case _:
            return False
