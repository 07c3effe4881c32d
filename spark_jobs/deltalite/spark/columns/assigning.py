"""Conversion of a value to the type of a column: widening where the types fit, else a check of each row.

A conversion that can never work (a date to a number, a struct with unknown members) is refused before a row is read.
Some conversions work for some values only: a BIGINT to an INT, a decimal with more digits, a timestamp to a date.
These values are cast and cast back. A row whose value changes fails the operation, so no value is cut or rounded
silently. A text is converted if it loses nothing (`text_values`).
delta-spark: store assignment, which rounds decimals.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType, bare
from deltalite.protocol.schema_evolution import VOID, fits
from deltalite.spark.columns.text_values import CONVERTED, text_value
from deltalite.spark.columns.types import spark_type

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double", "decimal"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_NO_TEXT = frozenset({"binary", "variant", "void"})


def assigned(
    value: Column, have: DataType, want: DataType, path: str, *, fills: bool = False, varies: bool = False
) -> Column:
    """Convert a value of the type `have` to the type `want`.

    Args:
        value: the value.
        have: its type.
        want: the type of the column.
        path: the column, for errors.
        fills: whether missing members of structs become null.
        varies: whether the value is non-deterministic.

    Raises:
        SchemaMismatchError: the type cannot be converted, or members are missing or unknown.
    """
    if varies and bare(have) != bare(want):
        once = F.transform(F.array(value), lambda item: assigned(item, have, want, path, fills=fills))
        return F.element_at(once, 1)
    match have, want:
        case _ if have == VOID:
            return value.cast(spark_type(want))  # NULL, or an expression that raises an error
        case StructType(), StructType():
            return _struct(value, have, want, path, fills=fills)
        case ArrayType(element), ArrayType(new_element):
            convert = _converter(element, new_element, f"{path}.element", fills=fills)
            return value if convert is None else F.transform(value, convert)
        case MapType(key, item), MapType(new_key, new_item):
            convert_key = _converter(key, new_key, f"{path}.key", fills=fills)
            convert_item = _converter(item, new_item, f"{path}.value", fills=fills)
            if convert_key is None and convert_item is None:
                return value
            keys, items = F.map_keys(value), F.map_values(value)
            return F.map_from_arrays(
                keys if convert_key is None else F.transform(keys, convert_key),
                items if convert_item is None else F.transform(items, convert_item),
            )
        case _ if have == want:
            return value
        case ((PrimitiveType() | DecimalType()), (PrimitiveType() | DecimalType())):
            return _simple(value, have, want, path)
        case _:
            raise _not_convertible(have, want, path)


def _simple(
    value: Column,
    have: PrimitiveType | DecimalType,
    want: PrimitiveType | DecimalType,
    path: str,
) -> Column:
    if fits(have, want):
        return value.cast(spark_type(want))
    if want == PrimitiveType("string") and _name(have) not in _NO_TEXT:
        return value.cast("string")
    if have == PrimitiveType("string") and (isinstance(want, DecimalType) or want.name in CONVERTED):
        return _refuse_lost_values(value, text_value(value, want), have, want, path)
    if not any(_name(have) in family and _name(want) in family for family in (_NUMBERS, _TIMES)):
        raise _not_convertible(have, want, path)
    return _checked(have, want, path)(value)


def _checked(have: DataType, want: DataType, path: str) -> Callable[[Column], Column]:
    """Return a function that casts a value, and fails the query if casting it back does not restore it."""

    def cast(value: Column) -> Column:
        converted = value.try_cast(spark_type(want))
        is_same = converted.try_cast(spark_type(have)).eqNullSafe(value)
        return _refuse_lost_values(value, F.when(is_same, converted), have, want, path)

    return cast


def _refuse_lost_values(value: Column, converted: Column, have: DataType, want: DataType, path: str) -> Column:
    """Return `converted`, and fail the query if it is null but the value is not."""
    problem = F.concat(
        F.lit(f"The column '{path}' is {want}, and the value "),
        value.cast("string"),
        F.lit(f" ({have}) does not convert to it without loss."),
    )
    refusal = F.raise_error(problem).cast(spark_type(want))
    return F.when(value.isNull() | converted.isNotNull(), converted).otherwise(refusal)


def _struct(value: Column, have: StructType, want: StructType, path: str, *, fills: bool) -> Column:
    unknown = [f.name for f in have if want.find(f.name) is None]
    missing = [f.name for f in want if have.find(f.name) is None]
    if unknown or (missing and not fills):
        raise SchemaMismatchError(
            f"The column '{path}' has the members {', '.join(want.names)}, and its value has {', '.join(have.names)}.",
            remedy="Build the struct with the same members: named_struct('a', ..., 'b', ...).",
        )
    if bare(have) == bare(want):
        return value
    members = []
    for field in want:
        source = have.find(field.name)
        if source is None:
            member = F.lit(None).cast(spark_type(field.type))
        else:
            member_path = f"{path}.{field.name}"
            member = assigned(value.getField(source.name), source.type, field.type, member_path, fills=fills)
        members.append(member.alias(field.name))
    return F.when(value.isNotNull(), F.struct(*members))


def _converter(have: DataType, want: DataType, path: str, *, fills: bool) -> Callable[[Column], Column] | None:
    """Return the conversion of each item of a collection, or None if the types are equal."""
    if spark_type(have) == spark_type(want):
        return None
    assigned(F.lit(None), have, want, path, fills=fills)  # raises before a row is read if it can never work
    return lambda item: assigned(item, have, want, path, fills=fills)


def _name(data_type: PrimitiveType | DecimalType) -> str:
    return data_type.name if isinstance(data_type, PrimitiveType) else "decimal"


def _not_convertible(have: DataType, want: DataType, path: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"The column '{path}' is {want}, and its value is {have}. There is no implicit conversion between these types.",
        remedy=f"Convert the value, for example with CAST(... AS {want}).",
    )
