"""Delta's schema and Spark's: both are written as the same JSON."""

from __future__ import annotations

import json

from pyspark.sql import types as spark_types

from deltalite.errors import SchemaMismatchError, UnsupportedFeatureError
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    bare,
    parse_type,
    type_to_json,
)
from deltalite.protocol.schema_evolution import VOID


def to_spark(schema: StructType) -> spark_types.StructType:
    """The Spark schema for reading: every column may be null, since old files may lack it."""
    return spark_types.StructType.fromJson(json.loads(json.dumps(type_to_json(bare(schema)))))


def spark_type(data_type: DataType) -> spark_types.DataType:
    """One Spark type."""
    return to_spark(StructType((StructField("value", data_type),)))["value"].dataType


def from_spark(schema: spark_types.StructType) -> StructType:
    """The schema of a DataFrame as Delta's; a column without a type is `VOID`.

    Raises:
        SchemaMismatchError: Delta has no such type, or two names differ only in case.
    """
    names = [name.lower() for name in schema.names]
    for name in names:
        if names.count(name) > 1:
            raise SchemaMismatchError(
                f"The data has two columns called '{name}' (case does not count).",
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
                f"The column '{column}' is a struct without members, which cannot be stored.", remedy="Leave it out."
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
                    remedy="Cast it in `query`.",
                ) from error
