"""The facts about a file's columns, from its partition values and statistics in the log.

Partition values hold for every row; statistics are bounds. This module allows for the inaccuracies of writers:

- Timestamps are truncated to milliseconds.
- A long string maximum may be truncated.
- A maximum ignores NaN.
- A bound of 32-bit floats is the shortest text of the float, such as 0.1.
- Some writers round decimals to doubles.
- A widened column keeps the statistics of its narrower type.
- With a deletion vector the bounds are wide, and only a null count of zero or of all records is certain.
- If a file has zero records, a null count of zero does not mean that all rows are null: the writer may not have counted
  records.

A value that is missing, malformed, contradictory, or of another type than the column gives no bound.
Protocol: Per-file Statistics; Partition Value Serialization.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, assert_never

from deltalite.columnar.predicates.outcomes import UNKNOWN_COLUMN, ColumnFacts
from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.statistics.string_bounds import utf16_units
from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.partition_values import parse_partition_value
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

_FLOAT = PrimitiveType("float")
FLOATING = (_FLOAT, PrimitiveType("double"))
# A maximum of 12:00:00.123 in the log stands for every time below 12:00:00.124; times have microseconds.
CUT_FROM_TIMESTAMPS = timedelta(microseconds=999)
# Delta truncates strings after 32 UTF-16 units by default, and delta-rs after 64 units. Some writers append no
# character to such a prefix.
SHORTEST_CUT = 32
# The length is configurable, so a shorter maximum counts as truncated too if it ends with an appended character.
_APPENDED = ("\x7f", "\ufffd", "\U0010ffff")
# The end of a truncated maximum: half a character, which Java may have written as `?`, and then a character above the
# removed character. Older Delta appended U+FFFD, which is below all characters of two units.
_TRUNCATED_END = re.compile("[?\ud800-\udfff]?[\x7f\ufffd\U0010ffff]*\\Z")
# A double holds any decimal of this many digits; the log may have longer decimals in rounded form.
DIGITS_OF_DOUBLE = 15
ROUNDING_OF_DOUBLE = Decimal("1E-15")
# delta-rs writes a decimal without fraction as a 64-bit integer. A value out of range becomes one of these values.
SATURATED = frozenset({2**63 - 1, 2**63, -(2**63)})
_WIDE_CONTEXT = Context(prec=100)
# Decimal keeps the digits of decimal columns; `_floating` converts it for floating point columns.
_DECODER = json.JSONDecoder(parse_float=Decimal)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """The parsed statistics of one file; the three objects are nested like the schema."""

    num_records: int | None
    min_values: Mapping[str, Any]
    max_values: Mapping[str, Any]
    null_counts: Mapping[str, Any]
    tight_bounds: bool | None = None


def parse_stats(text: str | None) -> FileStats | None:
    """Parse the statistics of an `add`; return None if they are missing or not a JSON object."""
    if not text:
        return None
    try:
        members = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(members, dict):
        return None
    tight_bounds = members.get("tightBounds")
    return FileStats(
        num_records=count_of(members.get("numRecords")),
        min_values=_object_or_empty(members.get("minValues")),
        max_values=_object_or_empty(members.get("maxValues")),
        null_counts=_object_or_empty(members.get("nullCount")),
        tight_bounds=tight_bounds if isinstance(tight_bounds, bool) else None,
    )


def facts_from_partition(text: str | None, data_type: DataType) -> ColumnFacts:
    """Return the facts about a partition column with the value `text` in the log."""
    try:
        value = parse_partition_value(text, data_type)
    except (CorruptLogError, UnsupportedFeatureError):
        return UNKNOWN_COLUMN
    if value is None:
        return ColumnFacts(may_be_value=False)
    if data_type == _FLOAT:
        value = nearest_single(value)
    return ColumnFacts(low=value, high=value, may_be_null=False)


def facts_from_stats(stats: FileStats, path: Path, data_type: DataType) -> ColumnFacts:
    """Return the facts about a leaf column of the file; `path` has the physical names, spelled as in the schema."""
    smallest, largest = value_at(stats.min_values, path), value_at(stats.max_values, path)
    low, high = _bounds(smallest, largest, data_type)
    may_be_cut = False
    if isinstance(high, str):
        high, may_be_cut = known_beginning(high)
    null_count = count_of(value_at(stats.null_counts, path))
    if isinstance(data_type, ArrayType | MapType):
        # Some writers count null arrays, and others count null elements.
        null_count = None
    return ColumnFacts(
        low=low,
        high=high,
        high_may_be_cut=may_be_cut,
        may_be_nan=data_type in FLOATING,
        may_be_null=null_count != 0,
        may_be_value=not null_count or null_count != stats.num_records or (smallest, largest) != (None, None),
    )


def known_beginning(high: str) -> tuple[str, bool]:
    """Return the certain prefix of a string maximum, and whether the true maximum may be longer."""
    may_be_cut = utf16_units(high) >= SHORTEST_CUT or high.endswith(_APPENDED)
    return _TRUNCATED_END.sub("", high) if may_be_cut else high, may_be_cut


def nearest_single(value: float) -> float:
    """Return the nearest 32-bit float as a double; `value` itself if it is outside the range of 32-bit floats.

    A text such as 0.1, written for a 32-bit float, parses to a double that differs from the float. Double columns can
    have such texts too, because a column may have been widened from float.
    """
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return value


def _bounds(smallest: Any, largest: Any, data_type: DataType) -> tuple[Any, Any]:
    try:
        low, high = bound_value(smallest, data_type), bound_value(largest, data_type)
        if low is not None and high is not None and low > high:
            return None, None
        return _round_down(low, data_type), _round_up(high, data_type)
    except (ValueError, ArithmeticError):
        return None, None


def bound_value(raw: Any, data_type: DataType) -> Any:  # noqa: C901  one branch per kind
    """Convert a bound from the JSON (decoded by `parse_stats`) to a Python value.

    None means no bound: a missing value or another JSON type, NaN, an infinity, a saturated decimal, a `timestamp`
    without an offset from UTC, or a `timestamp_ntz` with an offset other than zero.

    Raises:
        ValueError, ArithmeticError: the JSON type is right but the value is invalid, such as 30 February.
    """
    if raw is None:
        return None
    match data_type:
        case PrimitiveType("byte" | "short" | "integer" | "long"):
            return _integer(raw)
        case DecimalType():
            return Decimal(raw) if _is_number(raw) and Decimal(raw).is_finite() and raw not in SATURATED else None
        case PrimitiveType("float" | "double"):
            return _floating(raw) if _is_number(raw) else None
        case PrimitiveType("string"):
            return raw if isinstance(raw, str) else None
        case PrimitiveType("boolean"):
            return raw if isinstance(raw, bool) else None
        case PrimitiveType("date"):
            return date.fromisoformat(raw) if isinstance(raw, str) else None
        case PrimitiveType("timestamp"):
            moment = _datetime(raw)
            return moment if moment is not None and moment.utcoffset() is not None else None
        case PrimitiveType("timestamp_ntz"):
            moment = _datetime(raw)
            return moment.replace(tzinfo=None) if moment is not None and not moment.utcoffset() else None
        case PrimitiveType() | ArrayType() | MapType() | StructType():
            return None
        case _:
            assert_never(data_type)


def _round_down(low: Any, data_type: DataType) -> Any:
    if isinstance(low, float):
        return nearest_single(low) if data_type == _FLOAT else min(low, nearest_single(low))
    if isinstance(low, Decimal) and may_be_rounded(data_type):
        return _WIDE_CONTEXT.subtract(low, _WIDE_CONTEXT.multiply(_WIDE_CONTEXT.abs(low), ROUNDING_OF_DOUBLE))
    return low


def _round_up(high: Any, data_type: DataType) -> Any:
    if isinstance(high, float):
        return nearest_single(high) if data_type == _FLOAT else max(high, nearest_single(high))
    if isinstance(high, Decimal) and may_be_rounded(data_type):
        return _WIDE_CONTEXT.add(high, _WIDE_CONTEXT.multiply(_WIDE_CONTEXT.abs(high), ROUNDING_OF_DOUBLE))
    if isinstance(high, datetime):
        return high + CUT_FROM_TIMESTAMPS
    return high


def may_be_rounded(data_type: DataType) -> bool:
    """Whether a column's decimals have more digits than a double; some writers store bounds as doubles."""
    return isinstance(data_type, DecimalType) and data_type.precision > DIGITS_OF_DOUBLE


def _floating(raw: Any) -> float | None:
    value = float(raw)
    return value if math.isfinite(value) else None


def _datetime(raw: Any) -> datetime | None:
    return datetime.fromisoformat(raw) if isinstance(raw, str) else None


def _is_number(raw: Any) -> bool:
    return isinstance(raw, int | float | Decimal) and not isinstance(raw, bool)


def _integer(raw: Any) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) else None


def count_of(raw: Any) -> int | None:
    """Return the value if it is a valid number of rows, else None."""
    number = _integer(raw)
    return number if number is not None and 0 <= number < 2**63 else None


def _object_or_empty(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, dict) else {}


def value_at(values: Mapping[str, Any], path: Path) -> Any:
    """Return a column's JSON value in statistics of one kind; None if it is missing."""
    value: Any = values
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
