"""Type widening: checks whether a reader can read files that are older than a change of a column's type.

The field metadata `delta.typeChanges` keeps the history of a widened column. Older files have the narrower type, so a
reader casts their values, and each cast must be exact. A change that the protocol does not define is rejected, because
readers could not agree on the values of older files. Protocol: Type Widening, Reader Requirements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltalite.errors import CorruptLogError, DeltaLiteError, UnsupportedFeatureError
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_type,
)

TYPE_CHANGES = "delta.typeChanges"
INTEGERS = ("byte", "short", "integer", "long")
# The number of digits that hold every value of an integer type.
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
# The widenings between primitive types, except those among integers.
_WIDENINGS = {
    ("byte", "double"),
    ("short", "double"),
    ("integer", "double"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
}


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether a column may widen from `old` to `new`, which holds every value of `old` exactly.

    True for two equal types that are not nested.
    """
    match old, new:
        case PrimitiveType(old_name), PrimitiveType(new_name) if old_name in INTEGERS and new_name in INTEGERS:
            return INTEGERS.index(old_name) <= INTEGERS.index(new_name)
        case PrimitiveType(old_name), PrimitiveType(new_name):
            return old_name == new_name or (old_name, new_name) in _WIDENINGS
        case PrimitiveType(old_name), DecimalType(precision, scale) if old_name in _INTEGER_DIGITS:
            return precision - scale >= _INTEGER_DIGITS[old_name]
        case DecimalType(old_precision, old_scale), DecimalType(precision, scale):
            return old_scale <= scale and old_precision - old_scale <= precision - scale
        case _:
            return False


def check_type_changes(schema: StructType) -> None:
    """Check that this release can read each recorded type change.

    Raises:
        UnsupportedFeatureError: the protocol does not define a change, or a type is unknown. The message names the
            column.
        CorruptLogError: a change is malformed.
    """
    for path, old, new in recorded_changes(schema):
        if not is_widening(old, new):
            raise UnsupportedFeatureError(
                f"The type of the column '{path}' was changed from {old} to {new}, and this release does not read "
                "this type change (table feature typeWidening).",
                remedy="Read the table with an engine that supports it.",
            )


def recorded_changes(schema: StructType) -> Iterator[tuple[str, DataType, DataType]]:
    """Yield the recorded type changes of all columns: the column's path, the old and the new type.

    Raises:
        UnsupportedFeatureError: a type is unknown.
        CorruptLogError: a change is malformed.
    """
    for field in schema:
        yield from _changes_of_field(field, field.name)


def _changes_of_field(field: StructField, path: str) -> Iterator[tuple[str, DataType, DataType]]:
    changes = field.metadata.get(TYPE_CHANGES) or []
    if not isinstance(changes, list):
        raise _malformed_error(path, changes)
    for change in changes:
        yield path, *_types_of(change, path)
    yield from _changes_below(field.type, path)


def _changes_below(data_type: DataType, path: str) -> Iterator[tuple[str, DataType, DataType]]:
    match data_type:
        case StructType(fields):
            for member in fields:
                yield from _changes_of_field(member, f"{path}.{member.name}")
        case ArrayType(element):
            yield from _changes_below(element, f"{path}.element")
        case MapType(key, value):
            yield from _changes_below(key, f"{path}.key")
            yield from _changes_below(value, f"{path}.value")
        case PrimitiveType() | DecimalType():
            return


def _types_of(change: Any, path: str) -> tuple[DataType, DataType]:
    try:
        return parse_type(change["fromType"]), parse_type(change["toType"])
    except UnsupportedFeatureError as error:
        raise UnsupportedFeatureError(
            f"The column '{path}' has a type change that this release does not read (table feature typeWidening): "
            f"{error.problem}",
            remedy=error.remedy,
        ) from error
    except (KeyError, TypeError, AttributeError, DeltaLiteError) as error:
        raise _malformed_error(path, change) from error


def _malformed_error(path: str, change: Any) -> CorruptLogError:
    return CorruptLogError(
        f"The column '{path}' has a malformed {TYPE_CHANGES}: {change!r:.120}.", remedy="Repair the table's metadata."
    )
