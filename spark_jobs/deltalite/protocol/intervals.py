"""Intervals in table properties, as Spark parses them: `interval 7 days`, `+1 week -12 hours`, `1.5 seconds`.

An interval is one or more numbers, each with a unit; only seconds may have a fraction. A retention needs a fixed
length, so months and years must add up to zero. Spark: `IntervalUtils.stringToInterval`. Protocol: Table Properties.
"""

from __future__ import annotations

import re

_DAY_MICROS = 86_400_000_000
_DAYS = {"week": 7, "day": 1}
_MONTHS = {"year": 12, "month": 1}
_MICROS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1_000, "microsecond": 1}
_UNITS = "|".join((*_DAYS, *_MONTHS, *_MICROS))
_NUMBER = r"(?P<sign>[+-]?)\s*(?P<whole>\d*)(?P<fraction>\.\d{0,9})?"
_PART = re.compile(rf"\s*{_NUMBER}\s+(?P<unit>{_UNITS})s?(?=\s|$)", re.ASCII)
_PREFIX = re.compile(r"interval\s+", re.ASCII)
_WHITE_SPACE = " \t\n\r\x0b\x0c"
# Spark holds days in 32 bits and microseconds in 64 bits.
_MAX_DAYS, _MAX_MICROS = 2**31 - 1, 2**63 - 1


def parse_interval_ms(text: str) -> int:
    """Parse an interval and return it in milliseconds.

    Raises:
        ValueError: Spark cannot parse the text as an interval, or the interval is negative or has months.
    """
    body = text.strip(_WHITE_SPACE).lower()
    prefix = _PREFIX.match(body)
    position = 0 if prefix is None else prefix.end()
    months = days = micros = part_count = 0
    while position < len(body):
        part = _PART.match(body, position)
        if part is None or part["whole"] + (part["fraction"] or "") in ("", "."):
            raise _invalid_interval_error(text)
        unit, fraction = part["unit"], part["fraction"] or ""
        if fraction and unit != "second":
            raise _invalid_interval_error(text)
        sign = -1 if part["sign"] == "-" else 1
        count = int(part["whole"] or 0)
        months += sign * count * _MONTHS.get(unit, 0)
        days += sign * count * _DAYS.get(unit, 0)
        micros += sign * (count * _MICROS.get(unit, 0) + int(fraction[1:7].ljust(6, "0") if fraction else 0))
        part_count, position = part_count + 1, part.end()
    total_micros = days * _DAY_MICROS + micros
    if not part_count or months or total_micros < 0 or abs(days) > _MAX_DAYS or abs(micros) > _MAX_MICROS:
        raise _invalid_interval_error(text)
    return total_micros // 1000


def _invalid_interval_error(text: str) -> ValueError:
    return ValueError(f"{text!r} is not an interval of a fixed length such as 'interval 7 days'")
