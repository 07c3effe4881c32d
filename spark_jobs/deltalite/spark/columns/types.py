"""Conversion between Delta's and Spark's schemas, which have the same JSON form."""

from __future__ import annotations

import json

from pyspark.errors import PySparkException
from pyspark.sql import types as spark_types

from deltalite.errors import SchemaMismatchError, UnsupportedFeatureError
from deltalite.protocol.schema import (
    CHAR_VARCHAR,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    holds_char,
    parse_type,
    type_to_json,
    without_nullability_and_metadata,
)
from deltalite.protocol.schema_evolution import VOID


def to_spark(schema: StructType) -> spark_types.StructType:
    """Return the Spark schema for reading. No field has metadata, and all are nullable: old files may lack a column."""
    return spark_types.StructType.fromJson(
        json.loads(json.dumps(type_to_json(without_nullability_and_metadata(schema))))
    )


def with_char_types(spark_schema: spark_types.StructType, schema: StructType) -> spark_types.StructType:
    """Return the Spark schema with the type char(n) in the metadata of columns, as Spark's analyzer expects it."""
    fields = (
        spark_types.StructField(column.name, column.dataType, column.nullable, column.metadata | char_metadata(field))
        for column, field in zip(spark_schema.fields, schema, strict=True)
    )
    return spark_types.StructType(list(fields))


def char_metadata(field: StructField) -> dict[str, str]:
    """Return the metadata by which Spark recognizes a column of the type char(n); empty for other columns."""
    try:
        is_known = holds_char(field) and bounded_type(field) is not None
    except UnsupportedFeatureError:
        is_known = False
    return {CHAR_VARCHAR: str(field.metadata[CHAR_VARCHAR])} if is_known else {}


def bounded_type(field: StructField) -> spark_types.DataType | None:
    """Return the type with bounded text lengths from the field's metadata, or None.

    Raises:
        UnsupportedFeatureError: Spark does not know the type.
    """
    text = field.metadata.get(CHAR_VARCHAR)
    if text is None:
        return None
    try:
        return spark_types.DataType.fromDDL(str(text))
    except PySparkException as error:
        raise UnsupportedFeatureError(
            f"The column '{field.name}' has the type {text!r:.80} in its metadata ({CHAR_VARCHAR}), but Spark does not "
            "know this type.",
            remedy="Repair the table's metadata with the engine that wrote it.",
        ) from error


def spark_type(data_type: DataType) -> spark_types.DataType:
    """Return Spark's type for a Delta type."""
    return to_spark(StructType((StructField("value", data_type),)))["value"].dataType


def from_spark(schema: spark_types.StructType) -> StructType:
    """Return Delta's schema for the schema of a DataFrame. A column without a type becomes `VOID`.

    Raises:
        SchemaMismatchError: Delta has no such type, or two names are equal, ignoring case.
    """
    names = [name.lower() for name in schema.names]
    for name in names:
        if names.count(name) > 1:
            raise SchemaMismatchError(
                f"The data has two columns with the name '{name}', ignoring case.",
                remedy="Name the columns in `query` instead of using *.",
            )
    return StructType(tuple(_field(f) for f in schema.fields))


def _field(field: spark_types.StructField) -> StructField:
    metadata = {k: v for k, v in (field.metadata or {}).items() if not k.startswith("__")}
    return StructField(field.name, _type(field.dataType, field.name), field.nullable, metadata)


def _type(data_type: spark_types.DataType, column: str) -> DataType:
    match data_type:
        case spark_types.NullType():
            return VOID
        case spark_types.StructType(fields=[]):
            raise SchemaMismatchError(
                f"The column '{column}' is a struct without members, which cannot be stored.",
                remedy="Leave the column out in `query`.",
            )
        case spark_types.StructType():
            return from_spark(data_type)
        case spark_types.ArrayType():
            return ArrayType(_type(data_type.elementType, column), data_type.containsNull)
        case spark_types.MapType():
            return MapType(
                _type(data_type.keyType, column), _type(data_type.valueType, column), data_type.valueContainsNull
            )
        case _:
            try:
                return parse_type(data_type.jsonValue())
            except (UnsupportedFeatureError, TypeError) as error:
                raise SchemaMismatchError(
                    f"The column '{column}' has the type {data_type.simpleString()}, which this release cannot store.",
                    remedy="Cast the column in `query`.",
                ) from error
