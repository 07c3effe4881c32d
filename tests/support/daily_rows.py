"""Rows of (id, day), for tests of tables that are partitioned by day."""

from __future__ import annotations

import datetime as dt

from tests.support.tables import rows, values

DAY_1, DAY_2, DAY_3 = (dt.date(2026, 1, day) for day in (1, 2, 3))


def days(*lines):
    """Rows of (id, day): `1 2` is id 1 of the second day."""
    return values("id, day", *(f"{line.split()[0]}, DATE'2026-01-0{line.split()[1]}'" for line in lines))


def by_day(table):
    """The rows of a table as a set of (id, day of the month)."""
    return {(number, day.day if day else None) for number, day in rows(table)}
