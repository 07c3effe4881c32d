"""Schema enforcement and schema evolution: whether a table accepts data, and the schema of the table afterwards.

Columns are matched by name without regard to case, and the table's spelling stays. A column accepts a type if the
column can hold each value of the type exactly; every column accepts void. An error names the column, both types and the
parameter that would allow the data. delta-spark: schema enforcement and mergeSchema.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.type_changes import is_widening
from deltalite.protocol.type_widening import widens_automatically, with_wider_type

VOID = PrimitiveType("void")
# A write may use these exact conversions, although they are not type widenings.
_EXACT_IN_FLOAT = frozenset({("byte", "float"), ("short", "float")})
# Names that need no backticks in SQL.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Prefixes of metadata keys that describe the source table, not the values.
_SOURCE_TABLE_PREFIXES = ("delta.", "__", "CURRENT_DEFAULT", "EXISTS_DEFAULT")


def new_table_schema(data: StructType, path: tuple[str, ...] = ()) -> StructType:
    """Return the schema of a new table for the data: every column is nullable, and comments stay.

    Args:
        data: the schema of the data.
        path: the path of the data in a larger schema, for errors.

    Raises:
        SchemaMismatchError: a column has the type void (`SELECT NULL AS x`).
    """
    void_path = next(_void_paths(data, path), None)
    if void_path is not None:
        raise SchemaMismatchError(
            f"The column '{'.'.join(void_path)}' has the type {VOID}, which cannot be stored.",
            remedy="Cast it in `query`, for example CAST(NULL AS STRING), or give its type in `schema` of the source.",
        )
    return StructType(tuple(_new_table_field(f) for f in data))


def evolved_schema(
    table: StructType, data: StructType, *, merge_schema: bool, widens: bool = False, computed: Container[str] = ()
) -> StructType:
    """Return the table's schema after a write of the data.

    Args:
        table: the table's schema.
        data: the schema of the data.
        merge_schema: whether new columns are appended; if not, the schema stays the same.
        widens: whether, with `merge_schema`, a column gets the wider type of the data (`widens_automatically`).
        computed: the columns that the writer computes if the data lacks them.

    Raises:
        SchemaMismatchError: a column is unknown, NOT NULL but missing, or of a type that would lose values, or a new
            column has the type void.
    """
    evolution = _Evolution(adds=merge_schema, widens=merge_schema and widens)
    return _merge_structs(table, data, (), evolution, computed=computed)


def with_new_columns(table: StructType, data: StructType, *, widens: bool = False) -> StructType:
    """Return the table's schema with the columns, and the members at every depth, that only the data has.

    With `widens`, existing columns get the wider type of the data (`widens_automatically`). No other type changes.

    Raises:
        SchemaMismatchError: a new column has the type void.
    """
    return _add_columns(table, data, (), widens=widens)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evolution:
    """The changes that data may make to the schema: whether it adds columns, and whether it widens types."""

    adds: bool
    widens: bool


def fits(from_type: DataType, to_type: DataType) -> bool:
    """Whether the simple type `to_type` holds every value of `from_type` exactly."""
    if from_type in (to_type, VOID) or is_widening(from_type, to_type):
        return True
    match from_type, to_type:
        case PrimitiveType(from_name), PrimitiveType(to_name):
            return (from_name, to_name) in _EXACT_IN_FLOAT
        case _:
            return False


def _merge_structs(
    table: StructType,
    data: StructType,
    path: tuple[str, ...],
    evolution: _Evolution,
    *,
    computed: Container[str] = (),
) -> StructType:
    fields = []
    for field in table:
        data_field = data.find(field.name)
        if data_field is None:
            if field.name not in computed:
                _check_may_be_missing(field, (*path, field.name))
            fields.append(field)
        else:
            merged_type = _merge_types(field.type, data_field.type, (*path, field.name), evolution)
            fields.append(with_wider_type(field, merged_type))
    new_fields = [f for f in data if table.find(f.name) is None]
    if new_fields and not evolution.adds:
        raise SchemaMismatchError(
            f"The data has columns that the table does not have: {_columns_text(new_fields, path)}. "
            f"The table has: {', '.join(table.names)}.",
            remedy="Set merge_schema=True to add them, or leave them out in `query`.",
        )
    return StructType((*fields, *new_table_schema(StructType(tuple(new_fields)), path)))


def _add_columns(table: StructType, data: StructType, path: tuple[str, ...], *, widens: bool) -> StructType:
    fields = []
    for field in table:
        data_field = data.find(field.name)
        if data_field is None:
            fields.append(field)
        else:
            new_type = _add_members(field.type, data_field.type, (*path, field.name), widens=widens)
            fields.append(with_wider_type(field, new_type))
    new_fields = StructType(tuple(f for f in data if table.find(f.name) is None))
    return StructType((*fields, *new_table_schema(new_fields, path)))


def _add_members(table: DataType, data: DataType, path: tuple[str, ...], *, widens: bool) -> DataType:
    match table, data:
        case StructType(), StructType():
            return _add_columns(table, data, path, widens=widens)
        case ArrayType(element, contains_null), ArrayType(data_element):
            return ArrayType(_add_members(element, data_element, (*path, "element"), widens=widens), contains_null)
        case MapType(key, value, contains_null), MapType(data_key, data_value):
            new_key = data_key if widens and widens_automatically(key, data_key) else key
            return MapType(new_key, _add_members(value, data_value, (*path, "value"), widens=widens), contains_null)
        case _:
            return data if widens and widens_automatically(table, data) else table


def _merge_types(table: DataType, data: DataType, path: tuple[str, ...], evolution: _Evolution) -> DataType:
    match table, data:
        case StructType(), StructType():
            return _merge_structs(table, data, path, evolution)
        case ArrayType(element, contains_null), ArrayType(data_element, _):
            return ArrayType(_merge_types(element, data_element, (*path, "element"), evolution), contains_null)
        case MapType(key, value, contains_null), MapType(data_key, data_value, _):
            return MapType(
                _merge_types(key, data_key, (*path, "key"), evolution),
                _merge_types(value, data_value, (*path, "value"), evolution),
                contains_null,
            )
        case _ if fits(data, table):
            return table
        case _ if evolution.widens and widens_automatically(table, data):
            return data
        case _:
            raise SchemaMismatchError(
                f"The column '{'.'.join(path)}' is {table} in the table and {data} in the data, and {table} cannot "
                f"hold every {data} exactly.",
                remedy=f"{_conversion_advice(table, data, path)}; or replace the table with mode='overwrite' and "
                f"overwrite_schema=True{_widening_advice(table, data)}.",
            )


def _widening_advice(table: DataType, data: DataType) -> str:
    """Return the advice to widen the column, or an empty text if the column cannot widen to the type of the data."""
    if not widens_automatically(table, data):
        return ""
    return "; or write with merge_schema=True to a table with delta.enableTypeWidening, which widens the column"


def _conversion_advice(table: DataType, data: DataType, path: tuple[str, ...]) -> str:
    """Return the advice to convert the data in `query`: a cast if the column has a simple type."""
    column = path[0] if _PLAIN_NAME.fullmatch(path[0]) else "`" + path[0].replace("`", "``") + "`"
    match table, data:
        case _ if len(path) > 1:
            return f"Rebuild {column} in `query`, so that '{'.'.join(path)}' is {table}"
        case PrimitiveType() | DecimalType(), PrimitiveType() | DecimalType():
            return f"Cast it in `query`: CAST({column} AS {table})"
        case _:
            return f"Convert it to {table} in `query`"


def _check_may_be_missing(field: StructField, path: tuple[str, ...]) -> None:
    if not field.nullable:
        raise SchemaMismatchError(
            f"The column '{'.'.join(path)}' ({field.type}) is NOT NULL in the table and missing in the data.",
            remedy="Add it in `query`.",
        )


def _columns_text(fields: Iterable[StructField], path: tuple[str, ...]) -> str:
    return ", ".join(f"{'.'.join((*path, f.name))} ({f.type})" for f in fields)


def _new_table_field(field: StructField) -> StructField:
    metadata = {k: v for k, v in field.metadata.items() if not k.startswith(_SOURCE_TABLE_PREFIXES)}
    return StructField(field.name, _with_nullable_members(field.type), nullable=True, metadata=metadata)


def _with_nullable_members(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(_new_table_field(f) for f in fields))
        case ArrayType(element):
            return ArrayType(_with_nullable_members(element), contains_null=True)
        case MapType(key, value):
            return MapType(_with_nullable_members(key), _with_nullable_members(value), value_contains_null=True)
        case PrimitiveType() | DecimalType():
            return data_type


def _void_paths(data_type: DataType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all columns and members of type void; `path` leads to `data_type`."""
    match data_type:
        case StructType(fields):
            for field in fields:
                yield from _void_paths(field.type, (*path, field.name))
        case ArrayType(element):
            yield from _void_paths(element, (*path, "element"))
        case MapType(key, value):
            yield from _void_paths(key, (*path, "key"))
            yield from _void_paths(value, (*path, "value"))
        case PrimitiveType() | DecimalType():
            if data_type == VOID:
                yield path
