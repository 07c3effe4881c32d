"""Conversion of the columns of data files to the columns of the table.

- Files hold physical names. With column mapping a top-level column is renamed in place, so that Spark still pushes
  filters down and reads only the requested columns. Inside a struct a cast renames by position.
- Columns of type void are in no file. They are not requested, and become nulls.
- Spark widens the types of older files, with one exception: integers in a column that became a decimal too narrow for
  any integer. Such a column is requested with more digits.
- In mode `id` columns are found by field id, never by name.

Protocol: Reader Requirements for Column Mapping; Void Type; Type Widening.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.protocol.column_mapping import MappingMode, TableSchema, field_id
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from deltalite.protocol.type_changes import TYPE_CHANGES
from deltalite.spark.columns.names import named
from deltalite.spark.columns.text_lengths import padded
from deltalite.spark.columns.types import char_metadata, spark_type, to_spark

_VOID = PrimitiveType("void")
_FLOATING_POINT = (PrimitiveType("float"), PrimitiveType("double"))
# The digits before the point that Spark requires to read an integer of a file as a decimal.
_DIGITS_OF_INTEGERS: Mapping[Any, int] = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_MOST_DIGITS = 38
_NOTHING_PUSHED: Mapping[str, str] = {"spark.sql.parquet.filterPushdown": "false"}
# Only Spark's vectorised reader finds columns by id. Spark pushes filters down by name, and in a file of another writer
# the name may belong to another id. So this mode disables the push-down.
_BY_FIELD_ID: Mapping[str, str] = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    **_NOTHING_PUSHED,
}


def read_settings(table: TableSchema, *, is_exact: bool) -> Mapping[str, str]:
    """Return the settings for reading the files.

    Spark's pushed-down filters on floating point can miss rows: for them a dictionary with -0.0 does not match 0.0, and
    bounds that leave out NaN exclude it. So an exact read of a table with such columns disables the push-down.
    """
    if table.mode is MappingMode.ID:
        return _BY_FIELD_ID
    return _NOTHING_PUSHED if is_exact and _has(table.data, _FLOATING_POINT) else {}


def file_schema(table: TableSchema) -> spark_types.StructType:
    """Return the schema to read data files with: physical names, nullable columns, and field ids in mode `id`.

    A column without an id, such as the change type in change data files, is found by its name.
    """
    stored = StructType(_asked_members(table.data.fields))
    found = to_spark(stored)
    return spark_types.StructType(with_field_ids(found, stored).fields) if table.mode is MappingMode.ID else found


def presented(table: TableSchema, *, pads: bool) -> list[Column]:
    """Return the table's columns, computed from those of `file_schema` and the partition columns by physical name.

    `pads` fills texts of the type char(n) with blanks.
    """
    columns = []
    for logical, physical in zip(table.logical, table.physical, strict=True):
        column = named(physical.name)
        if physical.name not in table.partition_keys:
            column = _shown(column, physical.type, logical.type, _digits(physical))
        if table.mode is MappingMode.ID:
            # A cast to the same type removes the id, so that it does not get into files written from the column.
            column = column.cast(spark_type(logical.type))
        full = padded(column, logical) if pads else None
        columns.append((column if full is None else full).alias(logical.name, **_char_metadata(logical)))
    return columns


def _char_metadata(field: StructField) -> dict[str, Any]:
    """Return the argument of `alias` by which Spark recognizes a column of the type char(n)."""
    metadata = char_metadata(field)
    return {"metadata": metadata} if metadata else {}


def _shown(column: Column, physical: DataType, logical: DataType, digits: int) -> Column:
    """Convert a requested column to the table's type; a column of this type stays unchanged."""
    asked, target = _asked(physical, digits), spark_type(logical)
    match physical, logical:
        case _ if asked is None:
            return F.lit(None).cast(target)
        case StructType(own_members), StructType(members) if _has(physical, (_VOID,)):
            shown = [
                _shown(column.getField(own.name), own.type, member.type, _digits(own)).alias(member.name)
                for own, member in zip(own_members, members, strict=True)
            ]
            return F.when(column.isNotNull(), F.struct(*shown))
        case ArrayType(own), ArrayType(element) if _has(physical, (_VOID,)):
            return F.transform(column, lambda item: _shown(item, own, element, digits))
        case MapType(own_key, own), MapType(key, value) if _has(physical, (_VOID,)):
            keys = F.transform(F.map_keys(column), lambda item: _shown(item, own_key, key, digits))
            values = F.transform(F.map_values(column), lambda item: _shown(item, own, value, digits))
            return F.map_from_arrays(keys, values)
        case _:
            return column if spark_type(asked) == target else column.cast(target)


def _asked(data_type: DataType, digits: int) -> DataType | None:
    """Return the type to request of files, with at least `digits` before the point of decimals; None for void."""
    match data_type:
        case StructType(fields):
            members = _asked_members(fields)
            return StructType(members) if members else None
        case ArrayType(element, contains_null):
            own = _asked(element, digits)
            return None if own is None else ArrayType(own, contains_null)
        case MapType(key, value, contains_null):
            own_key, own_value = _asked(key, digits), _asked(value, digits)
            return None if own_key is None or own_value is None else MapType(own_key, own_value, contains_null)
        case DecimalType(precision, scale):
            return DecimalType(min(max(precision, digits + scale), _MOST_DIGITS), scale)
        case _:
            return None if data_type == _VOID else data_type


def _asked_members(fields: Iterable[StructField]) -> tuple[StructField, ...]:
    found = ((f, _asked(f.type, _digits(f))) for f in fields)
    return tuple(StructField(f.name, own, f.nullable, f.metadata) for f, own in found if own is not None)


def _digits(field: StructField) -> int:
    """Return the digits before the point that a decimal needs if it was an integer before; else 0."""
    changes = field.metadata.get(TYPE_CHANGES) or ()
    return max((_DIGITS_OF_INTEGERS.get(change.get("fromType"), 0) for change in changes), default=0)


def _has(data_type: DataType, wanted: Container[DataType]) -> bool:
    """Whether the type is or contains one of these types, at any depth."""
    match data_type:
        case StructType(fields):
            return any(_has(f.type, wanted) for f in fields)
        case ArrayType(element):
            return _has(element, wanted)
        case MapType(key, value):
            return _has(key, wanted) or _has(value, wanted)
        case _:
            return data_type in wanted


def with_field_ids(found: Any, own: DataType) -> Any:
    """Add `parquet.field.id` to the metadata of the fields of a Spark type, at every depth."""
    match own:
        case StructType(fields):
            members = []
            for spark_field, field in zip(found.fields, fields, strict=True):
                number = field_id(field.metadata)
                by_id = {} if number is None else {"parquet.field.id": number}
                data_type = with_field_ids(spark_field.dataType, field.type)
                members.append(spark_types.StructField(spark_field.name, data_type, True, by_id))
            return spark_types.StructType(members)
        case ArrayType(element):
            return spark_types.ArrayType(with_field_ids(found.elementType, element), True)
        case MapType(key, value):
            return spark_types.MapType(with_field_ids(found.keyType, key), with_field_ids(found.valueType, value), True)
        case _:
            return found
