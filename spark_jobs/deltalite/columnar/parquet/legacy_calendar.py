"""Conversion of dates and timestamps that an old Spark wrote in the Julian calendar.

Spark before version 3, and later versions with an option, count the days before 1582-10-15 in the Julian calendar. The
same count means another day in the Gregorian calendar. The footer of such a file has a Spark version before 3 or the
key `legacyDateTime`; for int96, a version before 3.1 or the key `legacyINT96`. As in Spark, a Julian date becomes the
Gregorian date of the same name. 29 February becomes 1 March if the year is only a Julian leap year. Timestamps shift by
whole days in UTC. Times before 1900 in other time zones need a table that only Spark has, and are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_VERSION = b"org.apache.spark.version"
_LEGACY_DATETIME = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"
_TIME_ZONE = b"org.apache.spark.timeZone"
_DATETIME_FIXED, _INT96_FIXED = (3, 0), (3, 1)
_LEADING_NUMBERS = re.compile(rb"(\d+)\.(\d+)")
_UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu", "Universal"})

_FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15, in days since 1970-01-01."""
_FIRST_MODERN_MICROSECOND = -2_208_988_800_000_000
"""1900-01-01T00:00:00Z: later timestamps are the same in both calendars and in every time zone."""
_MICROSECONDS_A_DAY = 86_400_000_000

# The Julian 1 March of the year 0, in days since 1970-01-01. If years begin in March, a leap day is the last day of its
# year. Four Julian years have 1461 days. The count begins 400,000 years before, so that no number is negative.
_MARCH_OF_YEAR_0 = -719_470
_CENTURIES_BEFORE = 4_000
_DAYS_BEFORE = _CENTURIES_BEFORE * 36_525


class UnconvertibleTimestampError(ValueError):
    """A timestamp before 1900 needs a time zone table that only Spark has; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The calendar of a file by its footer.

    - `julian_datetime`: whether dates and timestamps are Julian, except int96 timestamps.
    - `julian_int96`: whether int96 timestamps are Julian.
    - `time_zone`: the writer's time zone, empty if the footer lacks it.
    """

    julian_datetime: bool = False
    julian_int96: bool = False
    time_zone: str = ""


def calendar_of(metadata: Mapping[bytes, bytes] | None) -> Calendar:
    """Return the calendar of a file, from its footer's key-value metadata; files of other writers are Gregorian."""
    entries = metadata or {}
    match = _LEADING_NUMBERS.match(entries.get(_VERSION, b""))
    if match is None:
        return Calendar()
    version = (int(match[1]), int(match[2]))
    return Calendar(
        julian_datetime=version < _DATETIME_FIXED or _LEGACY_DATETIME in entries,
        julian_int96=version < _INT96_FIXED or _LEGACY_INT96 in entries,
        time_zone=entries.get(_TIME_ZONE, b"").decode("utf-8", "replace"),
    )


def gregorian_dates(dates: pa.Array) -> pa.Array:
    """Convert Julian dates (date32) to Gregorian dates of the same name; dates from 1582-10-15 on stay unchanged."""
    days = dates.cast(pa.int32())
    if not _any_below(days, _FIRST_GREGORIAN_DAY):
        return dates
    days_64 = days.cast(pa.int64())
    return pc.add(days_64, _day_shift(days_64)).cast(pa.int32()).cast(pa.date32())


def gregorian_timestamps(timestamps: pa.Array, time_zone: str) -> pa.Array:
    """Convert Julian timestamps in microseconds; see `gregorian_dates`.

    Raises:
        UnconvertibleTimestampError: a timestamp is before 1900, and the writer's time zone is not UTC or is unknown.
    """
    micros = timestamps.cast(pa.int64())
    if not _any_below(micros, _FIRST_MODERN_MICROSECOND):
        return timestamps
    if time_zone not in _UTC_NAMES:
        zone = f"the time zone {time_zone}" if time_zone else "a time zone that it does not name"
        raise UnconvertibleTimestampError(f"it holds times before 1900, written by an old Spark in {zone}")
    # Division rounds towards zero, but the day of a time before 1970 needs rounding down.
    correction = pc.if_else(pc.less(micros, 0), _MICROSECONDS_A_DAY - 1, 0)
    days = pc.divide(pc.subtract(micros, correction), _MICROSECONDS_A_DAY)
    return pc.add(micros, pc.multiply(_day_shift(days), _MICROSECONDS_A_DAY)).cast(timestamps.type)


def _day_shift(days: pa.Array) -> pa.Array:
    """Return the days to add to Julian days (int64, since 1970-01-01), such as -10 in the 16th century."""
    day_count = pc.add(days, _DAYS_BEFORE - _MARCH_OF_YEAR_0)
    year = pc.divide(pc.add(pc.multiply(day_count, 4), 3), 1_461)
    century = pc.subtract(pc.divide(year, 100), _CENTURIES_BEFORE)
    # Each century year is a leap year in the Julian calendar, but only each fourth in the Gregorian calendar.
    quarter = pc.subtract(pc.divide(pc.add(century, _CENTURIES_BEFORE), 4), _CENTURIES_BEFORE // 4)
    shift = pc.add(pc.subtract(quarter, century), 2)
    return pc.if_else(pc.less(days, _FIRST_GREGORIAN_DAY), shift, 0)


def _any_below(values: pa.Array, limit: int) -> bool:
    return bool(pc.any(pc.less(values, limit)).as_py())
