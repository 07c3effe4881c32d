"""The schema with which source files are read: the table's types for columns that the table has.

Files such as CSV and JSON store no types. The types that a first load infers become the types of the table, and later
loads read with these types. So a column never changes its type because of the files of one run. The functions here do
no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deltalite.protocol.schema import ArrayType, DataType, PrimitiveType, StructField, StructType
from deltalite.protocol.schema_evolution import fits

STRING = PrimitiveType("string")


def schema_for_reading(inferred: StructType, table: StructType) -> StructType:
    """Return the inferred columns, with the types of the table where the table has the column or the member.

    New columns and new members of structs keep their inferred types, so that the write refuses or adds them.
    """
    return StructType(
        tuple(
            field if (column := table.find(field.name)) is None else _field(column, _type(field.type, column.type))
            for field in inferred
        )
    )


def wider_columns(schemas: Iterable[StructType]) -> dict[str, StructField]:
    """Return each column of schemas, by its name in lower case, with a type that holds the values of each schema.

    If no type of the schemas holds all values, the type is STRING, which holds the text of each file.
    """
    columns: dict[str, StructField] = {}
    for schema in schemas:
        for field in schema:
            known = columns.get(field.name.lower())
            columns[field.name.lower()] = field if known is None else _field(known, _wider(known.type, field.type))
    return columns


def columns_by_header(
    names: Sequence[str], table: StructType | None, inferred: Mapping[str, StructField]
) -> StructType:
    """Return the columns of files with a header, in the order of the header.

    Args:
        names: the header.
        table: the columns of the table; their types come first.
        inferred: inferred columns by their names in lower case. A column without a type is a STRING.
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
        case _:
            return table


def _wider(one: DataType, other: DataType) -> DataType:
    if fits(one, other):
        return other
    return one if fits(other, one) else STRING


def _field(column: StructField, data_type: DataType) -> StructField:
    return StructField(column.name, data_type)
