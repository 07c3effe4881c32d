"""The schema with which source files are read: the table's types for columns that the table has.

Files such as CSV and JSON store no types. The types that a first load infers become the types of the table, and later
loads read with these types. So a column never changes its type because of the files of one run. The functions here do
no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.column_rules import GENERATION
from deltalite.protocol.identity_columns import START
from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.schema_evolution import fits

STRING = PrimitiveType("string")
DATE = PrimitiveType("date")


def schema_for_reading(inferred: StructType, table: StructType) -> StructType:
    """Return the inferred columns, with the types of the table where the table has the column or the member.

    New columns and new members of structs keep their inferred types, so that the write refuses or adds them. Names keep
    the spelling of the files, because Spark's JSON reader distinguishes upper and lower case.

    Raises:
        SchemaMismatchError: members of the values of a map differ only in case.
    """
    return StructType(
        tuple(
            field if (column := table.find(field.name)) is None else _field(field, _type(field.type, column.type))
            for field in inferred
        )
    )


def with_types_as_text(schema: StructType, is_text: Callable[[DataType], bool]) -> StructType:
    """Return the schema with STRING in place of the types for which `is_text` is true, at every depth.

    The keys of maps keep their types.
    """
    return StructType(tuple(_field(field, _as_text(field.type, is_text)) for field in schema))


def _as_text(data_type: DataType, is_text: Callable[[DataType], bool]) -> DataType:
    match data_type:
        case StructType():
            return with_types_as_text(data_type, is_text)
        case ArrayType(element):
            return ArrayType(_as_text(element, is_text), contains_null=True)
        case MapType(key, value):
            return MapType(key, _as_text(value, is_text), value_contains_null=True)
        case _:
            return STRING if is_text(data_type) else data_type


def wider_columns(schemas: Iterable[StructType]) -> dict[str, StructField]:
    """Return each column of schemas, by its name in lower case, with a type that holds the values of each schema.

    If no type of the schemas holds all values, the type is STRING, which holds the text of each file.
    """
    columns: dict[str, StructField] = {}
    for schema in schemas:
        for field in schema:
            column = columns.get(field.name.lower())
            columns[field.name.lower()] = (
                field if column is None else _field(column, _wider_type(column.type, field.type))
            )
    return columns


def columns_to_fill(table: StructType) -> StructType:
    """Return the columns that the table does not compute: all except generated and identity columns."""
    return StructType(tuple(field for field in table if not {GENERATION, START} & field.metadata.keys()))


def columns_by_header(
    names: Sequence[str], table: StructType | None, inferred: Mapping[str, StructField]
) -> StructType:
    """Return the columns of files with a header, in the order of the header.

    Args:
        names: the header.
        table: the columns of the table. If a column is here and in `inferred`, it gets the type of the table.
        inferred: inferred columns by their names in lower case. A column that is neither here nor in the table is a
            STRING.
    """
    fields = []
    for name in names:
        column = None if table is None else table.find(name)
        column = column or inferred.get(name.lower()) or StructField(name, STRING)
        fields.append(_field(column, column.type))
    return StructType(tuple(fields))


def _type(inferred: DataType, table: DataType) -> DataType:
    match inferred, table:
        case StructType(), StructType():
            return schema_for_reading(inferred, table)
        case ArrayType(element), ArrayType(table_element):
            return ArrayType(_type(element, table_element), contains_null=True)
        case StructType(), MapType(table_key, table_value) if inferred.fields:
            # Spark infers the keys of a JSON object as members, so their types are those of the values.
            value = reduce(_merged_type, (field.type for field in inferred))
            return MapType(table_key, _type(value, table_value), value_contains_null=True)
        case _:
            return table


def _merged_type(one: DataType, other: DataType) -> DataType:
    """Return a type with the members of both types at every depth. If only one type has members, return this type.

    Raises:
        SchemaMismatchError: names of members differ only in case. Spark's JSON reader would read only one of them.
    """
    match one, other:
        case StructType(), StructType():
            members = {field.name.lower(): field for field in one}
            for field in other:
                member = members.setdefault(field.name.lower(), field)
                if member.name != field.name:
                    raise SchemaMismatchError(
                        f"The values of a map have the members '{member.name}' and '{field.name}', which differ only "
                        "in case.",
                        remedy="Write the files with one spelling.",
                    )
                members[field.name.lower()] = _field(member, _merged_type(member.type, field.type))
            return StructType(tuple(members.values()))
        case ArrayType(element), ArrayType(other_element):
            return ArrayType(_merged_type(element, other_element), contains_null=True)
        case _:
            return other if isinstance(other, StructType | ArrayType) else one


def _wider_type(one: DataType, other: DataType) -> DataType:
    if fits(one, other):
        return other
    return one if fits(other, one) else STRING


def _field(column: StructField, data_type: DataType) -> StructField:
    return StructField(column.name, data_type)
