"""Conversion of partition values: strings in the log, typed values everywhere else.

Null and the empty string both mean null, for every type. The parser accepts each spelling of dates and times that
Spark's CAST accepts, because other engines write `2020-1-1`, `2020-01-01 1:2:3` or `2020-01-01 00:00:00 UTC`:

- A time without a zone is in UTC, because the log does not contain the zone of its writer.
- A time of day without a date is rejected, because Spark would use today's date.
- Arrow supports all years that Spark writes, from -9999 to beyond 9999. Python supports only the years 1 to 9999.

Spark writes partition values, see `spark/write/staging.py`. Protocol: Partition Value Serialization.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, assert_never
from zoneinfo import ZoneInfo

import pyarrow as pa

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

# Whitespace and ASCII control characters, which Spark removes from both ends of a date or time.
_BLANKS: Final = "".join(map(chr, range(0x21))) + "\x7f"
# `2020`, `2020-1`, `2020-01-01`; after the day, any text that begins with a blank or a T.
_DAY: Final = re.compile(
    r"(?P<year>[-+]?\d{4,7})(?:-(?P<month>\d\d?)(?:-(?P<day>\d\d?)(?:[ T].*)?)?)?", re.ASCII | re.DOTALL
)
# `2026-1-1 1:2`, `2026-01-01 10:20:30.5`, `2026-01-01T10:20:30.123456Z`, `2026-01-01 10:20:30 UTC`, `-9999-12-31`.
_TIMESTAMP: Final = re.compile(
    r"(?P<year>[-+]?\d{4,6})(?:-(?P<month>\d\d?)(?:-(?P<day>\d\d?)"
    r"(?:[ T](?P<hour>\d\d?)(?::(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:\.(?P<fraction>\d*))?)?"
    r"(?P<zone>[^\d:.].*)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
# `Z`, `UTC`, `+01:00`, `-0130`, `+1`, `GMT+02:30`. The other zones are regions such as `Europe/Berlin`.
_OFFSET: Final = re.compile(
    r"(?P<name>UTC|GMT|UT)?(?P<sign>[-+])(?P<hours>\d\d|\d(?!\d))"
    r"(?::?(?P<minutes>\d\d)(?::?(?P<seconds>\d\d))?|:(?P<minute>\d))?",
    re.ASCII,
)
_UTC_NAMES: Final = frozenset({"Z", "UTC", "GMT", "UT"})
_REGION: Final = re.compile(r"(?!posix/|right/)[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+", re.ASCII)
_MAX_OFFSET_S: Final = 18 * 3_600
_DATE_AND_TIME_TYPES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  arithmetic without zones
# The calendar repeats itself after 400 years.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_LAST_UNSIGNED_YEAR: Final = 9_999
_DAY_US: Final = 86_400_000_000
# A valid decimal has far fewer digits.
_MAX_DIGITS: Final = 1_000
# Python's int and float accept texts that no engine writes, such as digits of other scripts, `1_000` and blanks.
_NUMBER: Final = re.compile(r"[-+]?[0-9A-Za-z.][-+0-9A-Za-z.]*")


def partition_text(values: Mapping[str, str | None], column: str) -> str | None:
    """Return the text of a partition column in an action's `partitionValues`; None if it is missing, as in Spark.

    If no key equals the column's name, a key that differs only in case matches.
    """
    if column in values:
        return values[column]
    lowered = column.lower()
    return next((text for name, text in values.items() if name.lower() == lowered), None)


def parse_partition_value(text: str | None, data_type: DataType) -> Any:
    """Return the Python value: int, float, Decimal, str, bytes, bool, date or datetime; None for null.

    The datetime of a `timestamp` is aware, and that of a `timestamp_ntz` is naive.

    Raises:
        CorruptLogError: the text is not a value of the type.
        UnsupportedFeatureError: the year is outside 1 to 9999. Only `partition_scalar` supports such a year.
    """
    if text is None or text == "":
        return None
    value = _parse(text, data_type)
    if not _is_date_or_time(data_type):
        return value
    try:
        timestamp = _EPOCH + timedelta(microseconds=value)
    except OverflowError as error:
        raise UnsupportedFeatureError(
            f"The log has the partition value {text!r}, but this release partitions by the years 1 to 9999 only.",
            remedy="Read the table with another engine, or leave the partition out.",
        ) from error
    match data_type:
        case PrimitiveType("date"):
            return timestamp.date()
        case PrimitiveType("timestamp"):
            return timestamp.replace(tzinfo=UTC)
        case _:
            return timestamp


def partition_scalar(text: str | None, data_type: DataType) -> pa.Scalar:
    """Return the value as a scalar of the column's Arrow type (`type_to_arrow`), for each year that Arrow supports.

    Raises:
        CorruptLogError: the text is not a value of the type, or is out of its range.
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
        raise _invalid_value_error(text, data_type) from error


def canonical_text(text: str | None, data_type: DataType) -> str | None:
    """Return the value in a spelling that every engine reads; None for null and the empty string.

    Dates become `2020-01-01`. Times have six fractional digits, and a `timestamp` is in UTC with a `Z`. Years after
    9999 have a plus sign. Values of other types stay unchanged.

    Raises:
        CorruptLogError: the text is not a value of the type, or is out of its range.
    """
    # A decimal may have more digits than its column, because Spark rounds it on read. The text is only checked.
    if isinstance(data_type, DecimalType):
        parse_partition_value(text, data_type)
        return text or None
    scalar = partition_scalar(text, data_type)
    if not scalar.is_valid or not _is_date_or_time(data_type):
        return text or None
    if data_type == PrimitiveType("date"):
        return _day_text(int(scalar.value))
    days, day_us = divmod(int(scalar.value), _DAY_US)
    time_text = (_EPOCH + timedelta(microseconds=day_us)).time().isoformat(timespec="microseconds")
    return f"{_day_text(days)} {time_text}{'Z' if data_type == PrimitiveType('timestamp') else ''}"


def with_location(
    error: CorruptLogError | UnsupportedFeatureError, column: str, path: str | None
) -> CorruptLogError | UnsupportedFeatureError:
    """Return an error like `error`, with a message that also names the column, and the file if `path` is known."""
    file = "" if path is None else f" of the file '{path}'"
    return type(error)(f"{error.problem} It belongs to the column '{column}'{file}.", remedy=error.remedy)


def _day_text(days: int) -> str:
    """Return the date of a number of days since 1970."""
    cycles, cycle_day = divmod(days, _CYCLE_DAYS)
    day = date.fromordinal(_EPOCH.toordinal() - _CYCLE_DAYS + cycle_day)  # in the years 1570 to 1969
    year = day.year + (cycles + 1) * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > _LAST_UNSIGNED_YEAR else ""
    return f"{sign}{abs(year):04d}-{day:%m-%d}"


def _parse(text: str, data_type: DataType) -> Any:
    """Return the Python value, or microseconds since 1970 (UTC) for dates and times."""
    try:
        return _parse_by_type(text, data_type)
    except (ValueError, OverflowError, InvalidOperation, KeyError) as error:  # KeyError: unknown region or boolean
        raise _invalid_value_error(text, data_type) from error


def _parse_by_type(text: str, data_type: DataType) -> Any:  # noqa: C901  one branch per type
    match data_type:
        case DecimalType():
            value = Decimal(_checked_number(text))
            # Arrow crashes the process if the scale does not fit in 32 bits.
            if not value.is_finite() or abs(value.adjusted()) > _MAX_DIGITS or len(text) > _MAX_DIGITS:
                raise ValueError("not a finite decimal, or too many digits")
            return value
        case PrimitiveType("string"):
            return text
        case PrimitiveType("byte" | "short" | "integer" | "long"):
            return int(_checked_number(text))
        case PrimitiveType("float" | "double"):
            return float(_checked_number(text))
        case PrimitiveType("boolean"):
            return {"true": True, "false": False}[text.lower()]
        case PrimitiveType("date"):
            return _day(text) * _DAY_US
        case PrimitiveType("timestamp"):
            return _microseconds(text, has_zone=True)
        case PrimitiveType("timestamp_ntz"):
            return _microseconds(text, has_zone=False)
        case PrimitiveType("binary"):
            return text.encode("utf-8", "surrogateescape")
        case PrimitiveType() | ArrayType() | MapType() | StructType():
            raise ValueError(f"{data_type} cannot partition a table")
        case _:
            assert_never(data_type)


def _day(text: str) -> int:
    """Return the days since 1970; text after the day is ignored, as in Spark."""
    match = _DAY.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise ValueError("not a date")
    return _days_since_1970(match)


def _microseconds(text: str, *, has_zone: bool) -> int:
    """Return the microseconds since 1970 in the proleptic Gregorian calendar.

    A time zone in the text must be valid. It has no effect without `has_zone`.

    Raises:
        ValueError: the text is not a time, or its time zone is invalid.
    """
    match = _TIMESTAMP.fullmatch(text.strip(_BLANKS))
    if match is None:
        raise ValueError("not a time")
    clock = time(int(match["hour"] or 0), int(match["minute"] or 0), int(match["second"] or 0))
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    local = _days_since_1970(match) * _DAY_US + seconds * 1_000_000 + int((match["fraction"] or "").ljust(6, "0")[:6])
    offset_us = 0 if match["zone"] is None else _offset_us(match["zone"].strip(_BLANKS), local)
    return local - offset_us if has_zone else local


def _days_since_1970(match: re.Match[str]) -> int:
    """Return the days since 1970 of a match of `_DAY` or `_TIMESTAMP`; a missing month or day counts as 1."""
    cycles, year = divmod(int(match["year"]) - 1, _CYCLE_YEARS)
    day = date(year + 1, int(match["month"] or 1), int(match["day"] or 1))
    return day.toordinal() - _EPOCH.toordinal() + cycles * _CYCLE_DAYS


def _offset_us(zone: str, local_us: int) -> int:
    """Return the offset of local time from UTC in microseconds, positive to the east.

    Raises:
        ValueError: the zone does not exist.
    """
    if zone in _UTC_NAMES:
        return 0
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        minutes, seconds = int(offset["minutes"] or offset["minute"] or 0), int(offset["seconds"] or 0)
        offset_s = int(offset["hours"]) * 3_600 + minutes * 60 + seconds
        if minutes >= 60 or seconds >= 60 or offset_s > _MAX_OFFSET_S:  # noqa: PLR2004  minutes and seconds
            raise ValueError("not an offset of a zone")
        return (-offset_s if offset["sign"] == "-" else offset_s) * 1_000_000
    if not _REGION.fullmatch(zone):
        raise ValueError("not a zone")
    utc_offset = (_EPOCH + timedelta(microseconds=local_us)).replace(tzinfo=ZoneInfo(zone)).utcoffset()
    return 0 if utc_offset is None else utc_offset // timedelta(microseconds=1)


def _checked_number(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    return text


def _is_date_or_time(data_type: DataType) -> bool:
    return isinstance(data_type, PrimitiveType) and data_type.name in _DATE_AND_TIME_TYPES


def _invalid_value_error(text: str, data_type: DataType) -> CorruptLogError:
    return CorruptLogError(
        f"The log has the partition value {text!r}, which is not a valid {data_type}.",
        remedy="Repair the log with the engine that wrote it.",
    )
