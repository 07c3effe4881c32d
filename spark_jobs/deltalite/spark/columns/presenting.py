"""Conversion of the columns of data files to the columns of the table.

- Files hold physical names. With column mapping a top-level column is renamed in place, so that Spark still pushes
  filters down and reads only the requested columns. Inside a struct a cast renames by position.
- Columns of type void are in no file. The reader does not request such a column, and returns nulls.
- Spark widens the types of older files, except if an integer column became a decimal column with few digits. Such a
  column is requested with more digits.
- In mode `id` Spark finds a column that has a field id by this id only. It finds other columns by name.

Protocol: Reader Requirements for Column Mapping; Void Type; Type Widening.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    StructField,
    StructType,
    contains_type,
)
from deltalite.protocol.schema_evolution import VOID
from deltalite.protocol.type_changes import TYPE_CHANGES
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.text_lengths import pad_texts
from deltalite.spark.columns.types import char_metadata, spark_type, to_spark

# The digits before the point that Spark requires to read an integer of a file as a decimal.
_DIGITS_OF_INTEGERS: Mapping[Any, int] = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_MAX_DIGITS = 38
_NO_PUSHDOWN: Mapping[str, str] = {"spark.sql.parquet.filterPushdown": "false"}
# Only Spark's vectorised reader finds columns by id. Spark pushes filters down by name, and in a file of another writer
# the name may belong to another id. So these settings disable the push-down.
_READ_BY_FIELD_ID: Mapping[str, str] = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    **_NO_PUSHDOWN,
}


def read_settings(table: TableSchema, *, disables_float_pushdown: bool) -> Mapping[str, str]:
    """Return the settings for reading the files.

    Spark's pushed-down filters on floating-point columns can miss rows: a dictionary with -0.0 does not match 0.0, and
    bounds without NaN exclude NaN. With `disables_float_pushdown`, Spark pushes no filter down to a table with such
    columns.
    """
    if table.mode is MappingMode.ID:
        return _READ_BY_FIELD_ID
    has_floats = contains_type(table.data_columns, "float") or contains_type(table.data_columns, "double")
    return _NO_PUSHDOWN if disables_float_pushdown and has_floats else {}


def file_schema(table: TableSchema) -> spark_types.StructType:
    """Return the schema to read data files with: physical names, nullable columns, and field ids in mode `id`.

    Spark finds a column without an id, such as the change type of change data files, by its name.
    """
    requested = StructType(_requested_members(table.data_columns.fields))
    schema = to_spark(requested)
    return spark_types.StructType(with_field_ids(schema, requested).fields) if table.mode is MappingMode.ID else schema


def table_columns(table: TableSchema, *, pads: bool) -> list[Column]:
    """Return the table's columns, computed from the columns of `file_schema` and the physical partition columns.

    With `pads`, texts of the type char(n) are filled with blanks.
    """
    columns = []
    for logical, physical in zip(table.logical, table.physical, strict=True):
        column = column_named(physical.name)
        if physical.name not in table.partition_keys:
            column = _presented_value(column, physical.type, logical.type, _digits(physical))
        if table.mode is MappingMode.ID:
            # A cast to the same type removes the id, so that Spark does not write it into files with this column.
            column = column.cast(spark_type(logical.type))
        padded_column = pad_texts(column, logical) if pads else None
        columns.append(
            (column if padded_column is None else padded_column).alias(logical.name, **_char_metadata(logical))
        )
    return columns


def _char_metadata(field: StructField) -> dict[str, Any]:
    """Return the argument of `alias` by which Spark recognizes a column of the type char(n)."""
    metadata = char_metadata(field)
    return {"metadata": metadata} if metadata else {}


def _presented_value(column: Column, physical: DataType, logical: DataType, digits: int) -> Column:
    """Return a requested column with the table's type. A column of this type stays unchanged."""
    requested, target = _requested_type(physical, digits), spark_type(logical)
    match physical, logical:
        case _ if requested is None:
            return F.lit(None).cast(target)
        case StructType(stored_members), StructType(members) if contains_type(physical, VOID.name):
            values = [
                _presented_value(column.getField(stored.name), stored.type, member.type, _digits(stored)).alias(
                    member.name
                )
                for stored, member in zip(stored_members, members, strict=True)
            ]
            return F.when(column.isNotNull(), F.struct(*values))
        case ArrayType(stored_element), ArrayType(element) if contains_type(physical, VOID.name):
            return F.transform(column, lambda item: _presented_value(item, stored_element, element, digits))
        case MapType(stored_key, stored_value), MapType(key, value) if contains_type(physical, VOID.name):
            map_keys = F.transform(F.map_keys(column), lambda item: _presented_value(item, stored_key, key, digits))
            map_values = F.transform(
                F.map_values(column), lambda item: _presented_value(item, stored_value, value, digits)
            )
            return F.map_from_arrays(map_keys, map_values)
        case _:
            return column if spark_type(requested) == target else column.cast(target)


def _requested_type(data_type: DataType, digits: int) -> DataType | None:
    """Return the type to request from files, or None if files cannot hold the type because of void.

    Decimals get at least `digits` digits before the point.
    """
    match data_type:
        case StructType(fields):
            members = _requested_members(fields)
            return StructType(members) if members else None
        case ArrayType(element, contains_null):
            requested = _requested_type(element, digits)
            return None if requested is None else ArrayType(requested, contains_null)
        case MapType(key, value, contains_null):
            key_type, value_type = _requested_type(key, digits), _requested_type(value, digits)
            return None if key_type is None or value_type is None else MapType(key_type, value_type, contains_null)
        case DecimalType(precision, scale):
            return DecimalType(min(max(precision, digits + scale), _MAX_DIGITS), scale)
        case _:
            return None if data_type == VOID else data_type


def _requested_members(fields: Iterable[StructField]) -> tuple[StructField, ...]:
    members = ((f, _requested_type(f.type, _digits(f))) for f in fields)
    return tuple(
        StructField(f.name, data_type, f.nullable, f.metadata) for f, data_type in members if data_type is not None
    )


def _digits(field: StructField) -> int:
    """Return the digits before the point that a decimal column needs if it was an integer column before; else 0."""
    changes = field.metadata.get(TYPE_CHANGES) or ()
    return max((_DIGITS_OF_INTEGERS.get(change.get("fromType"), 0) for change in changes), default=0)


def with_field_ids(spark_data_type: Any, delta_type: DataType) -> Any:
    """Return a Spark type with `parquet.field.id` in the metadata of its fields, at every depth.

    The ids come from the fields of `delta_type`, which has the same structure.
    """
    match delta_type:
        case StructType(fields):
            members = []
            for spark_field, field in zip(spark_data_type.fields, fields, strict=True):
                number = field_id(field.metadata)
                metadata = {} if number is None else {"parquet.field.id": number}
                data_type = with_field_ids(spark_field.dataType, field.type)
                members.append(spark_types.StructField(spark_field.name, data_type, True, metadata))
            return spark_types.StructType(members)
        case ArrayType(element):
            return spark_types.ArrayType(with_field_ids(spark_data_type.elementType, element), True)
        case MapType(key, value):
            key_type = with_field_ids(spark_data_type.keyType, key)
            value_type = with_field_ids(spark_data_type.valueType, value)
            return spark_types.MapType(key_type, value_type, True)
        case _:
            return spark_data_type
