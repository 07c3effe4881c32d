"""Rows of (id, day), for tests of tables that are partitioned by day."""

from __future__ import annotations

import datetime as dt

from tests.support.tables import rows, values

DAY_1, DAY_2, DAY_3 = (dt.date(2026, 1, day) for day in (1, 2, 3))


def daily_rows_query(*row_texts):
    """A query for rows of (id, day). The text `1 2` stands for the row with the id 1 and the day 2026-01-02."""
    pairs = (text.split() for text in row_texts)
    return values("id, day", *(f"{row_id}, DATE'2026-01-0{day}'" for row_id, day in pairs))


def ids_and_days(table):
    """The rows of a table as a set of (id, day of the month). The day is None if it is null."""
    return {(row_id, day.day if day else None) for row_id, day in rows(table)}
