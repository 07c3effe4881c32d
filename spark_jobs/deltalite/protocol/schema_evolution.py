"""Whether rows of one schema may enter a table of another, and what the table's schema is afterwards.

Columns are matched by name without regard to case; the table's spelling stays. A type enters another where no value
can be lost; a void column enters every type. What does not fit is refused with the column, both types and the
parameter that would allow it. Pure functions on schemas: nothing is read or written here. delta-spark: schema
enforcement and mergeSchema.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import replace

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.type_changes import is_widening

VOID = PrimitiveType("void")
# What a widening of a column's type does not allow, and holds every value all the same.
_EXACT_IN_FLOAT = frozenset({("byte", "float"), ("short", "float")})
# Names that SQL takes without backticks.
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Keys of field metadata that describe the table they come from, not the values.
_TABLE_BOUND = ("delta.", "__", "CURRENT_DEFAULT", "EXISTS_DEFAULT")


def new_table_schema(data: StructType, path: tuple[str, ...] = ()) -> StructType:
    """The schema of a table made from the data: every column may be null, and comments stay.

    `path` is where the data belongs in a larger schema. Raises `SchemaMismatchError` for a column that has no type
    (`SELECT NULL AS x`).
    """
    for column, void in _void_columns(data, path):
        raise SchemaMismatchError(
            f"The column '{'.'.join(column)}' has the type {void}, which cannot be stored.",
            remedy="Give it a type in `query`: CAST(NULL AS STRING).",
        )
    return StructType(tuple(_adopted(f) for f in data))


def evolved_schema(table: StructType, data: StructType, *, merge_schema: bool, made: Container[str] = ()) -> StructType:
    """The table's schema once the data is in it: the same, or with new columns at the end where `merge_schema`.

    Columns of `made` are made by the writer where the data lacks them.

    Raises:
        SchemaMismatchError: a column is unknown, missing while NOT NULL, or of a type that would lose values.
    """
    return _merged(table, data, (), merge_schema=merge_schema, made=made)


def with_new_columns(table: StructType, data: StructType) -> StructType:
    """The table's schema with the columns, and at every depth the members, that only the data has, behind its own.

    Types stay as they are in the table.

    Raises:
        SchemaMismatchError: a new column has no type.
    """
    return _with_new(table, data, ())


def fits(have: DataType, want: DataType) -> bool:
    """Whether every value of the simple type `have` is a value of `want`, exactly."""
    if have in (want, VOID) or is_widening(have, want):
        return True
    match have, want:
        case PrimitiveType(a), PrimitiveType(b):
            return (a, b) in _EXACT_IN_FLOAT
        case _:
            return False


def _merged(
    table: StructType, data: StructType, path: tuple[str, ...], *, merge_schema: bool, made: Container[str] = ()
) -> StructType:
    fields = []
    for own in table:
        theirs = data.find(own.name)
        if theirs is None:
            if own.name not in made:
                _check_may_be_missing(own, (*path, own.name))
            fields.append(own)
        else:
            fields.append(replace(own, type=_merged_type(own.type, theirs.type, (*path, own.name), merge_schema)))
    added = [f for f in data if table.find(f.name) is None]
    if added and not merge_schema:
        raise SchemaMismatchError(
            f"The data has columns that the table does not have: {_listed(added, path)}. "
            f"The table has: {', '.join(table.names)}.",
            remedy="Set merge_schema=True to add them, or leave them out in `query`.",
        )
    return StructType((*fields, *new_table_schema(StructType(tuple(added)), path)))


def _with_new(table: StructType, data: StructType, path: tuple[str, ...]) -> StructType:
    fields = []
    for own in table:
        theirs = data.find(own.name)
        where = (*path, own.name)
        fields.append(own if theirs is None else replace(own, type=_type_with_new(own.type, theirs.type, where)))
    added = StructType(tuple(f for f in data if table.find(f.name) is None))
    return StructType((*fields, *new_table_schema(added, path)))


def _type_with_new(own: DataType, theirs: DataType, path: tuple[str, ...]) -> DataType:
    match own, theirs:
        case StructType(), StructType():
            return _with_new(own, theirs, path)
        case ArrayType(element, contains_null), ArrayType(their_element):
            return ArrayType(_type_with_new(element, their_element, (*path, "element")), contains_null)
        case MapType(key, value, contains_null), MapType(_, their_value):
            return MapType(key, _type_with_new(value, their_value, (*path, "value")), contains_null)
        case _:
            return own


def _merged_type(own: DataType, theirs: DataType, path: tuple[str, ...], merge_schema: bool) -> DataType:  # noqa: FBT001
    match own, theirs:
        case StructType(), StructType():
            return _merged(own, theirs, path, merge_schema=merge_schema)
        case ArrayType(element, contains_null), ArrayType(their_element, _):
            return ArrayType(_merged_type(element, their_element, (*path, "element"), merge_schema), contains_null)
        case MapType(key, value, contains_null), MapType(their_key, their_value, _):
            return MapType(
                _merged_type(key, their_key, (*path, "key"), merge_schema),
                _merged_type(value, their_value, (*path, "value"), merge_schema),
                contains_null,
            )
        case _ if fits(theirs, own):
            return own
        case _:
            raise SchemaMismatchError(
                f"The column '{'.'.join(path)}' is {own} in the table and {theirs} in the data, and not "
                f"every {theirs} is exactly one {own}.",
                remedy=f"{_conversion(own, theirs, path)}; or replace the table with mode='overwrite' and "
                "overwrite_schema=True.",
            )


def _conversion(own: DataType, theirs: DataType, path: tuple[str, ...]) -> str:
    """What makes the data fit: a cast where SQL has one for the column as a whole."""
    column = path[0] if _PLAIN_NAME.fullmatch(path[0]) else "`" + path[0].replace("`", "``") + "`"
    match own, theirs:
        case _ if len(path) > 1:
            return f"Build {column} anew in `query`, so that '{'.'.join(path)}' is {own}"
        case PrimitiveType() | DecimalType(), PrimitiveType() | DecimalType():
            return f"Cast it in `query`: CAST({column} AS {own})"
        case _:
            return f"Make it {own} in `query`"


def _check_may_be_missing(own: StructField, path: tuple[str, ...]) -> None:
    if not own.nullable:
        raise SchemaMismatchError(
            f"The column '{'.'.join(path)}' ({own.type}) is NOT NULL in the table and missing in the data.",
            remedy="Add it in `query`.",
        )


def _listed(fields: Iterable[StructField], path: tuple[str, ...]) -> str:
    return ", ".join(f"{'.'.join((*path, f.name))} ({f.type})" for f in fields)


def _adopted(field: StructField) -> StructField:
    metadata = {k: v for k, v in field.metadata.items() if not k.startswith(_TABLE_BOUND)}
    return StructField(field.name, _nullable(field.type), nullable=True, metadata=metadata)


def _nullable(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(_adopted(f) for f in fields))
        case ArrayType(element):
            return ArrayType(_nullable(element), contains_null=True)
        case MapType(key, value):
            return MapType(_nullable(key), _nullable(value), value_contains_null=True)
        case PrimitiveType() | DecimalType():
            return data_type


def _void_columns(data_type: DataType, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], DataType]]:
    match data_type:
        case StructType(fields):
            for f in fields:
                yield from _void_columns(f.type, (*path, f.name))
        case ArrayType(element):
            yield from _void_columns(element, (*path, "element"))
        case MapType(key, value):
            yield from _void_columns(key, (*path, "key"))
            yield from _void_columns(value, (*path, "value"))
        case PrimitiveType() | DecimalType():
            if data_type == VOID:
                yield path, data_type
