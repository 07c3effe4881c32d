"""Partition values: strings in the log, typed values everywhere else.

Null and the empty string both mean null, for every type. Timestamps are read in both spellings of the protocol; the one
without a zone means UTC here, since the log does not say which zone its writer had. Spark writes years from -9999 to
beyond 9999: Arrow has them all, Python's calendar the years 1 to 9999. Writing them is Spark's work, see
`spark/staging.py`. Protocol: Partition Value Serialization.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, assert_never

import pyarrow as pa

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

# `2026-01-01`, `2026-01-01 10:20:30.5`, `2026-01-01T10:20:30.123456Z`, `-9999-12-31`, `+10000-01-01`.
_MOMENT: Final = re.compile(
    r"(?P<year>[-+]?\d{4,6})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[ T](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|[-+]\d\d:?\d\d)?)?",
    re.ASCII,
)
_MOMENTS: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  arithmetic without zones
# The calendar repeats itself after 400 years.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_DAY_US: Final = 86_400_000_000
_MINUTE_US: Final = 60_000_000
# Far more than any decimal has.
_MOST_DIGITS: Final = 1_000
# What Python's numbers take from text beyond what engines write: digits of other scripts, 1_000, blanks.
_NUMBER: Final = re.compile(r"[-+]?[0-9A-Za-z.][-+0-9A-Za-z.]*")


def partition_text(values: Mapping[str, str | None], column: str) -> str | None:
    """The text of a partition column among an action's `partitionValues`; None where it has none, as in Spark.

    A key that differs from the column in its case counts where no key is the column's own name.
    """
    if column in values:
        return values[column]
    lowered = column.lower()
    return next((text for name, text in values.items() if name.lower() == lowered), None)


def parse_partition_value(text: str | None, data_type: DataType) -> Any:
    """The Python value: int, float, Decimal, str, bytes, bool, date, or datetime (aware for timestamp, naive for ntz).

    Raises:
        CorruptLogError: the text is no value of the type.
        UnsupportedFeatureError: it is a time outside the years 1 to 9999, which only `partition_scalar` can give.
    """
    if text is None or text == "":
        return None
    value = _parse(text, data_type)
    if not _is_moment(data_type):
        return value
    try:
        moment = _EPOCH + timedelta(microseconds=value)
    except OverflowError as error:
        raise UnsupportedFeatureError(
            f"The log has the partition value {text!r}; this release partitions by the years 1 to 9999 only.",
            remedy="Read the table with another engine, or leave that partition out.",
        ) from error
    match data_type:
        case PrimitiveType("date"):
            return moment.date()
        case PrimitiveType("timestamp"):
            return moment.replace(tzinfo=UTC)
        case _:
            return moment


def partition_scalar(text: str | None, data_type: DataType) -> pa.Scalar:
    """The value as a scalar of the column's Arrow type (`type_to_arrow`), for any year that Arrow has.

    Raises:
        CorruptLogError: the text is no value of the type, or does not fit it.
    """
    arrow_type = type_to_arrow(data_type)
    if text is None or text == "":
        return pa.scalar(None, arrow_type)
    value = _parse(text, data_type)
    if data_type == PrimitiveType("date"):
        value //= _DAY_US
    try:
        return pa.scalar(value, arrow_type)
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise _no_value(text, data_type) from error


def _parse(text: str, data_type: DataType) -> Any:
    """The Python value, but microseconds since 1970 (UTC) for dates and times."""
    try:
        return _parsed(text, data_type)
    except (ValueError, InvalidOperation, KeyError) as error:
        raise _no_value(text, data_type) from error


def _parsed(text: str, data_type: DataType) -> Any:  # noqa: C901  one arm a type
    match data_type:
        case DecimalType():
            value = Decimal(_number(text))
            # Beyond the 32 bits of its scale Arrow ends the process.
            if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS or len(text) > _MOST_DIGITS:
                raise ValueError("decimals are finite, and short")
            return value
        case PrimitiveType("string"):
            return text
        case PrimitiveType("byte" | "short" | "integer" | "long"):
            return int(_number(text))
        case PrimitiveType("float" | "double"):
            return float(_number(text))
        case PrimitiveType("boolean"):
            return {"true": True, "false": False}[text.lower()]
        case PrimitiveType("date"):
            return _microseconds(text, has_time=False, has_zone=False)
        case PrimitiveType("timestamp"):
            return _microseconds(text, has_time=True, has_zone=True)
        case PrimitiveType("timestamp_ntz"):
            return _microseconds(text, has_time=True, has_zone=False)
        case PrimitiveType("binary"):
            return text.encode("utf-8", "surrogateescape")
        case PrimitiveType() | ArrayType() | MapType() | StructType():
            raise ValueError(f"{data_type} cannot partition a table")
        case _:
            assert_never(data_type)


def _microseconds(text: str, *, has_time: bool, has_zone: bool) -> int:
    """A day or a moment in the proleptic Gregorian calendar; a zone counts only for a type that has one."""
    found = _MOMENT.fullmatch(text)
    if found is None or (found["hour"] is not None and not has_time):
        raise ValueError("no date or time")
    cycles, year = divmod(int(found["year"]) - 1, _CYCLE_YEARS)
    days = date(year + 1, int(found["month"]), int(found["day"])).toordinal() - _EPOCH.toordinal()
    since_1970 = (days + cycles * _CYCLE_DAYS) * _DAY_US
    if found["hour"] is None:
        return since_1970
    clock = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0))
    since_1970 += (clock.hour * 60 + clock.minute) * _MINUTE_US + clock.second * 1_000_000
    since_1970 += int((found["fraction"] or "0").ljust(6, "0")[:6])
    return since_1970 - _offset_minutes(found["zone"]) * _MINUTE_US if has_zone else since_1970


def _offset_minutes(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return -minutes if zone.startswith("-") else minutes


def _number(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number")
    return text


def _is_moment(data_type: DataType) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.name in _MOMENTS


def _no_value(text: str, data_type: DataType) -> CorruptLogError:
    return CorruptLogError(
        f"The log has the partition value {text!r}, which is no {data_type}.",
        remedy="Repair the log with the engine that wrote it.",
    )
