"""Conversion of a value to the type of a column: widening where the types fit, else a check of each row.

A conversion that can never work (a date to a number, a struct with unknown members) is refused before a row is read.
Some conversions work for some values only: a BIGINT to an INT, a decimal with more digits, a timestamp to a date.
Spark casts such a value to the type of the column and back. The operation fails if the result differs from the value.
So no value is truncated or rounded silently. A text is converted if the conversion loses nothing (`text_values`).
delta-spark's store assignment rounds decimals.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
    without_nullability_and_metadata,
)
from deltalite.protocol.schema_evolution import VOID, fits
from deltalite.spark.columns.text_values import TYPES_FROM_TEXT, text_value
from deltalite.spark.columns.types import spark_type
from deltalite.spark.runtime.errors import LOST_VALUE

_NUMBER_TYPES = frozenset({"byte", "short", "integer", "long", "float", "double", "decimal"})
_TIME_TYPES = frozenset({"date", "timestamp", "timestamp_ntz"})
_TYPES_WITHOUT_TEXT = frozenset({"binary", "variant", "void"})


def assign_value(
    value: Column,
    from_type: DataType,
    to_type: DataType,
    path: str,
    *,
    fills_missing: bool = False,
    is_non_deterministic: bool = False,
) -> Column:
    """Return a value of the type `from_type`, converted to the type `to_type`.

    Args:
        value: the value.
        from_type: the type of the value.
        to_type: the type of the column.
        path: the path of the column, for error messages.
        fills_missing: whether a struct may lack members, which then become null.
        is_non_deterministic: whether the value is non-deterministic, so that it must be computed only once.

    Raises:
        SchemaMismatchError: the type cannot be converted, or members are missing or unknown.
    """
    if is_non_deterministic and without_nullability_and_metadata(from_type) != without_nullability_and_metadata(
        to_type
    ):
        return convert_once(
            value, lambda item: assign_value(item, from_type, to_type, path, fills_missing=fills_missing)
        )
    match from_type, to_type:
        case _ if from_type == VOID:
            return value.cast(spark_type(to_type))  # a VOID value is NULL, or its expression raises an error
        case StructType(), StructType():
            return _struct_value(value, from_type, to_type, path, fills_missing=fills_missing)
        case ArrayType(element), ArrayType(new_element):
            convert = _converter(element, new_element, f"{path}.element", fills_missing=fills_missing)
            return value if convert is None else F.transform(value, convert)
        case MapType(key, item), MapType(new_key, new_item):
            convert_key = _converter(key, new_key, f"{path}.key", fills_missing=fills_missing)
            convert_item = _converter(item, new_item, f"{path}.value", fills_missing=fills_missing)
            if convert_key is None and convert_item is None:
                return value
            keys, items = F.map_keys(value), F.map_values(value)
            return F.map_from_arrays(
                keys if convert_key is None else F.transform(keys, convert_key),
                items if convert_item is None else F.transform(items, convert_item),
            )
        case _ if from_type == to_type:
            return value
        case ((PrimitiveType() | DecimalType()), (PrimitiveType() | DecimalType())):
            return _simple_value(value, from_type, to_type, path)
        case _:
            raise _not_convertible(from_type, to_type, path)


def convert_once(value: Column, convert: Callable[[Column], Column]) -> Column:
    """Return the converted value. Spark computes `value` once, even if `convert` uses it several times."""
    # The transformation of a one-item array computes the item once.
    return F.element_at(F.transform(F.array(value), convert), 1)


def _simple_value(
    value: Column,
    from_type: PrimitiveType | DecimalType,
    to_type: PrimitiveType | DecimalType,
    path: str,
) -> Column:
    if fits(from_type, to_type):
        return value.cast(spark_type(to_type))
    if to_type == PrimitiveType("string") and _type_name(from_type) not in _TYPES_WITHOUT_TEXT:
        return value.cast("string")
    if from_type == PrimitiveType("string") and (isinstance(to_type, DecimalType) or to_type.name in TYPES_FROM_TEXT):
        return _refuse_lost_values(value, text_value(value, to_type), from_type, to_type, path)
    families = (_NUMBER_TYPES, _TIME_TYPES)
    if not any(_type_name(from_type) in family and _type_name(to_type) in family for family in families):
        raise _not_convertible(from_type, to_type, path)
    converted = value.try_cast(spark_type(to_type))
    is_same = converted.try_cast(spark_type(from_type)).eqNullSafe(value)
    return _refuse_lost_values(value, F.when(is_same, converted), from_type, to_type, path)


def _refuse_lost_values(value: Column, converted: Column, from_type: DataType, to_type: DataType, path: str) -> Column:
    """Return `converted`. The query fails if `converted` is null and `value` is not."""
    problem = F.concat(
        F.lit(f"The column '{path}' is {to_type}, and the value "),
        value.cast("string"),
        F.lit(f" ({from_type}) {LOST_VALUE}."),
    )
    refusal = F.raise_error(problem).cast(spark_type(to_type))
    return F.when(value.isNull() | converted.isNotNull(), converted).otherwise(refusal)


def _struct_value(
    value: Column, from_type: StructType, to_type: StructType, path: str, *, fills_missing: bool
) -> Column:
    has_unknown_members = any(to_type.find(f.name) is None for f in from_type)
    lacks_members = any(from_type.find(f.name) is None for f in to_type)
    if has_unknown_members or (lacks_members and not fills_missing):
        raise SchemaMismatchError(
            f"The column '{path}' has the members {', '.join(to_type.names)}, but its value has the members "
            f"{', '.join(from_type.names)}.",
            remedy="Build the struct with the same members: named_struct('a', ..., 'b', ...).",
        )
    if without_nullability_and_metadata(from_type) == without_nullability_and_metadata(to_type):
        return value
    members = []
    for field in to_type:
        source = from_type.find(field.name)
        if source is None:
            member = F.lit(None).cast(spark_type(field.type))
        else:
            member_path = f"{path}.{field.name}"
            member = assign_value(
                value.getField(source.name), source.type, field.type, member_path, fills_missing=fills_missing
            )
        members.append(member.alias(field.name))
    return F.when(value.isNotNull(), F.struct(*members))


def _converter(
    from_type: DataType, to_type: DataType, path: str, *, fills_missing: bool
) -> Callable[[Column], Column] | None:
    """Return the function that converts an item of a collection, or None if the types are equal."""
    if spark_type(from_type) == spark_type(to_type):
        return None
    # This call raises an error at once if the conversion can never work.
    assign_value(F.lit(None), from_type, to_type, path, fills_missing=fills_missing)
    return lambda item: assign_value(item, from_type, to_type, path, fills_missing=fills_missing)


def _type_name(data_type: PrimitiveType | DecimalType) -> str:
    return data_type.name if isinstance(data_type, PrimitiveType) else "decimal"


def _not_convertible(from_type: DataType, to_type: DataType, path: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"The column '{path}' is {to_type}, and its value is {from_type}. "
        "There is no implicit conversion between these types.",
        remedy=f"Convert the value, for example with CAST(... AS {to_type}).",
    )
