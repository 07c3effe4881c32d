"""Conversion between Delta schemas and Arrow schemas.

Each Delta type has exactly one Arrow type:

- Timestamps have microseconds: `timestamp` in UTC, `timestamp_ntz` without a zone.
- Strings, binaries and lists have 32-bit offsets.
- A `variant` is a struct of two binaries, as Parquet stores it. `void` is null.

The conversion from Arrow accepts these types except null, and their large, view, fixed-size, dictionary and run-end
encodings. It returns a struct for a variant. An extension type counts as its storage type. Other units of time become
microseconds. For every other type, such as unsigned integers and float16, the conversion raises an error with the
column's path. An Arrow schema does not carry the metadata of Delta fields. Protocol: Schema Serialization
Format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import pyarrow as pa
from pyarrow import types

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VARIANT = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
"""A variant, as Parquet stores it if it is not shredded."""
_TO_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "variant": VARIANT,
    "void": pa.null(),
}
_FROM_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (types.is_string, "string"),
    (types.is_large_string, "string"),
    (types.is_string_view, "string"),
    (types.is_int64, "long"),
    (types.is_int32, "integer"),
    (types.is_int16, "short"),
    (types.is_int8, "byte"),
    (types.is_float32, "float"),
    (types.is_float64, "double"),
    (types.is_boolean, "boolean"),
    (types.is_binary, "binary"),
    (types.is_large_binary, "binary"),
    (types.is_binary_view, "binary"),
    (types.is_fixed_size_binary, "binary"),
    (types.is_date, "date"),
)
_LISTS = (
    types.is_list,
    types.is_large_list,
    types.is_fixed_size_list,
    types.is_list_view,
    types.is_large_list_view,
)
_MAX_DECIMAL_PRECISION = 38


def schema_to_arrow(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a table's rows, in the table's order of columns."""
    return pa.schema([_field_to_arrow(f) for f in schema])


def type_to_arrow(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a Delta type."""
    match data_type:
        case PrimitiveType(name):
            return _TO_ARROW[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", type_to_arrow(element), contains_null))
        case MapType(key, value, value_contains_null):
            return pa.map_(
                pa.field("key", type_to_arrow(key), nullable=False),
                pa.field("value", type_to_arrow(value), value_contains_null),
            )
        case StructType(members):
            return pa.struct([_field_to_arrow(f) for f in members])
        case _:
            assert_never(data_type)


def type_from_arrow(data_type: pa.DataType, column: str) -> DataType:
    """Return the Delta type that holds the values of an Arrow type.

    Args:
        data_type: the Arrow type.
        column: the path of the column in errors.

    Raises:
        SchemaMismatchError: no Delta type corresponds to the Arrow type, or two members share a name. The message names
            the column.
    """
    if types.is_dictionary(data_type) or types.is_run_end_encoded(data_type):
        return type_from_arrow(data_type.value_type, column)
    if isinstance(data_type, pa.BaseExtensionType):
        return type_from_arrow(data_type.storage_type, column)
    if types.is_timestamp(data_type):
        return PrimitiveType("timestamp_ntz" if data_type.tz is None else "timestamp")
    if types.is_decimal(data_type) and 0 <= data_type.scale <= data_type.precision <= _MAX_DECIMAL_PRECISION:
        return DecimalType(data_type.precision, data_type.scale)
    if types.is_struct(data_type):
        return _struct_from_arrow(data_type, column)
    if types.is_map(data_type):
        return MapType(
            type_from_arrow(data_type.key_type, f"{column}.key"),
            type_from_arrow(data_type.item_type, f"{column}.value"),
            data_type.item_field.nullable,
        )
    if is_list(data_type):
        return ArrayType(
            type_from_arrow(data_type.value_type, f"{column}.element"),
            data_type.value_field.nullable,
        )
    for is_kind, name in _FROM_ARROW:
        if is_kind(data_type):
            return PrimitiveType(name)
    raise SchemaMismatchError(
        f"Column '{column}' has the Arrow type {data_type}, which Delta Lake cannot store.",
        remedy=f"Cast it first, for example to {_suggested_type(data_type)}.",
    )


def is_list(data_type: pa.DataType) -> bool:
    """Whether the type is one of Arrow's list types."""
    return any(is_kind(data_type) for is_kind in _LISTS)


def storage_type_of(data_type: pa.DataType) -> pa.DataType:
    """Return the storage type of an extension type; return any other type unchanged."""
    return data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type


def _field_to_arrow(field: StructField) -> pa.Field:
    return pa.field(field.name, type_to_arrow(field.type), field.nullable)


def _struct_from_arrow(fields: Iterable[pa.Field], parent: str) -> StructType:
    members: dict[str, StructField] = {}
    for field in fields:
        path = f"{parent}.{field.name}" if parent else field.name
        if field.name.lower() in members:
            raise SchemaMismatchError(
                f"Two columns are called '{path}' (case does not count).", remedy="Rename one of them."
            )
        members[field.name.lower()] = StructField(field.name, type_from_arrow(field.type, path), field.nullable)
    return StructType(tuple(members.values()))


def _suggested_type(data_type: pa.DataType) -> str:
    """Describe the type to which the user can cast a column that Delta Lake cannot store."""
    if types.is_unsigned_integer(data_type):
        return "decimal128(20, 0)" if types.is_uint64(data_type) else "the next wider signed integer"
    if types.is_float16(data_type):
        return "float32"
    if types.is_decimal(data_type):
        return "a decimal128 of precision 38 or less and a scale between 0 and the precision"
    if types.is_time(data_type) or types.is_duration(data_type):
        return "int64 (a number of microseconds)"
    return "string"
