"""Type widening: the check that a reader can follow each change of a column's type.

The field metadata `delta.typeChanges` keeps the history of a widened column. Older files have the narrower type, so a
reader casts their values, and each cast must be exact. A change that the protocol does not define is rejected, because
the meaning of old files is then undefined. Protocol: Type Widening, Reader Requirements.
"""

from __future__ import annotations

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
_INTEGERS = ("byte", "short", "integer", "long")
# The number of digits that hold every value of an integer type.
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_WIDENED_TO = {
    ("byte", "double"),
    ("short", "double"),
    ("integer", "double"),
    ("float", "double"),
    ("date", "timestamp_ntz"),
}


def is_widening(old: DataType, new: DataType) -> bool:
    """Whether a column may widen from `old` to `new`, which holds every value of `old` exactly."""
    match old, new:
        case PrimitiveType(a), PrimitiveType(b) if a in _INTEGERS and b in _INTEGERS:
            return _INTEGERS.index(a) <= _INTEGERS.index(b)
        case PrimitiveType(a), PrimitiveType(b):
            return a == b or (a, b) in _WIDENED_TO
        case PrimitiveType(a), DecimalType(precision, scale) if a in _INTEGER_DIGITS:
            return precision - scale >= _INTEGER_DIGITS[a]
        case DecimalType(p1, s1), DecimalType(p2, s2):
            return s1 <= s2 and p1 - s1 <= p2 - s2
        case _:
            return False


def check_type_changes(schema: StructType) -> None:
    """Check that this release can read each recorded type change.

    Raises:
        UnsupportedFeatureError: the protocol does not define a change; the message names the column and both types.
        CorruptLogError: a change is malformed.
    """
    for field in schema:
        _check_field(field, field.name)


def _check_field(field: StructField, path: str) -> None:
    changes = field.metadata.get(TYPE_CHANGES) or []
    if not isinstance(changes, list):
        raise _malformed(path, changes)
    for change in changes:
        old, new = _types_of(change, path)
        if not is_widening(old, new):
            raise UnsupportedFeatureError(
                f"The type of the column '{path}' was changed from {old} to {new}, and this release does not read "
                "this type change (table feature typeWidening).",
                remedy="Read the table with an engine that supports it.",
            )
    _check_below(field.type, path)


def _check_below(data_type: DataType, path: str) -> None:
    match data_type:
        case StructType(fields):
            for member in fields:
                _check_field(member, f"{path}.{member.name}")
        case ArrayType(element):
            _check_below(element, f"{path}.element")
        case MapType(key, value):
            _check_below(key, f"{path}.key")
            _check_below(value, f"{path}.value")
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
        raise _malformed(path, change) from error


def _malformed(path: str, change: Any) -> CorruptLogError:
    return CorruptLogError(
        f"The column '{path}' has a malformed {TYPE_CHANGES}: {change!r:.120}.", remedy="Repair the table's metadata."
    )
